// Where the user types new input, if the page comes from `omegamax explore --serve`.

import { element } from "../dom";
import { type Input, readAttention } from "./payload";

const SECONDS = 180; // until the page stops waiting

export function inputForm(maxCharacters: number, found: (inputs: Input[]) => void): HTMLFormElement {
  const text = element("textarea", { id: "attention-text", rows: 2, dir: "auto", maxlength: maxCharacters, spellcheck: "false", required: true });
  const button = element("button", { type: "submit", class: "button" }, "Show attention");
  const message = element("p", { class: "attention-message", role: "alert" });
  const form = element(
    "form",
    { class: "panel attention-form", submit: (event: Event) => void submit(event) },
    element("label", { class: "small-label", for: "attention-text" }, "New input, one per line; it goes to the server on this computer"),
    text,
    button,
    message,
  );

  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    if (button.disabled) return;
    button.disabled = true;
    message.textContent = "The model is reading …";
    try {
      found(await ask(text.value));
      message.textContent = "";
    } catch (error) {
      message.textContent = error instanceof Error ? error.message : String(error);
    } finally {
      button.disabled = false;
    }
  }
  return form;
}

// Sends a text to the server; throws an Error whose message is a sentence for the user.
async function ask(text: string): Promise<Input[]> {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), 1000 * SECONDS);
  let answer: Response;
  let body: unknown;
  try {
    answer = await fetch(new URL("attend", location.href), {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ text }),
      signal: stop.signal,
    });
    body = await answer.json();
  } catch {
    if (stop.signal.aborted) throw new Error(`The server has not answered within ${SECONDS} seconds. Give it less text.`);
    throw new Error("The server does not answer. It was stopped: run omegamax explore with --serve again, and open the address that it prints.");
  } finally {
    clearTimeout(timer);
  }
  if (!answer.ok) {
    const { error } = (typeof body === "object" && body !== null ? body : {}) as { error?: unknown };
    throw new Error(typeof error === "string" ? `The server refused: ${error}.` : `The server refused with status ${answer.status}.`);
  }
  try {
    return readAttention(body).inputs;
  } catch (error) {
    throw new Error(`The answer of the server cannot be read: ${(error as Error).message}.`);
  }
}

// How numbers are written, everywhere on the page.

// A weight: "0" only where it is exactly zero, so a small one never looks like none.
export function weightText(weight: number): string {
  if (Number.isNaN(weight)) return "not a number";
  if (weight === 0) return "0";
  if (weight < 0.0005) return "<0.001";
  return weight.toFixed(3);
}

export function numberText(number: number, digits = 3): string {
  if (Number.isNaN(number)) return "not a number";
  if (number === Infinity) return "∞";
  if (number === -Infinity) return "−∞";
  const text = number.toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
}

export function clamp(number: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, number));
}

// A number from an address or a field: undefined where it is none, or none that is allowed.
export function readNumber(text: string | null, low: number, high: number): number | undefined {
  if (text === null || text.trim() === "") return undefined;
  const number = Number(text);
  return Number.isFinite(number) ? clamp(number, low, high) : undefined;
}

// As short as it can be and still be read back: 0.3 and not 0.30000000000000004.
export function shortNumber(number: number): string {
  return String(Number(number.toFixed(4)));
}

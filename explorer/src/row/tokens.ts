// Words of a sentence in any script, and the direction in which they are read.

// Scripts that are written without spaces between words.
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;
const RIGHT_TO_LEFT = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}]/u;

export const MOST_TOKENS = 400;

export function tokensOf(text: string): string[] {
  const tokens: string[] = [];
  for (const piece of text.trim().split(/\s+/u)) {
    if (piece === "") continue;
    if (UNSPACED.test(piece)) tokens.push(...wordsWithoutSpaces(piece));
    else tokens.push(piece);
    if (tokens.length >= MOST_TOKENS) break;
  }
  return tokens.slice(0, MOST_TOKENS);
}

function wordsWithoutSpaces(piece: string): string[] {
  if (typeof Intl.Segmenter !== "function") return Array.from(piece);
  return Array.from(new Intl.Segmenter(undefined, { granularity: "word" }).segment(piece), ({ segment }) => segment);
}

// Of the first letter that has one.
export function isRightToLeft(text: string): boolean {
  for (const letter of text) if (/\p{L}/u.test(letter)) return RIGHT_TO_LEFT.test(letter);
  return false;
}

// Scores follow their tokens where a text is edited: what begins and what ends alike is kept, new tokens get 0.
export function carryOver<T>(before: string[], values: T[], after: string[], fresh: T): T[] {
  let head = 0;
  while (head < before.length && head < after.length && before[head] === after[head]) ++head;
  let tail = 0;
  while (
    tail < before.length - head && tail < after.length - head &&
    before[before.length - 1 - tail] === after[after.length - 1 - tail]
  ) ++tail;
  return after.map((_, i) => {
    if (i < head) return values[i] ?? fresh;
    const fromEnd = after.length - 1 - i;
    if (fromEnd < tail) return values[before.length - 1 - fromEnd] ?? fresh;
    return i < before.length - tail ? (values[i] ?? fresh) : fresh; // a token that was retyped keeps its score
  });
}

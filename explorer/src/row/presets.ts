// Rows to begin with. Sentences of figures are those of Niculae & Blondel, "A regularized framework for sparse and
// structured neural attention", NeurIPS 2017; their scores are ours, chosen to show what the figure shows.

export interface Preset {
  name: string;
  state: string; // as in the address
}

const row = (fields: Record<string, string>) => new URLSearchParams(fields).toString();

export const PRESETS: Preset[] = [
  { name: "A short sentence", state: "" },
  {
    name: "Figure 1: a headline, and where fusedmax looks",
    state: row({
      t: "russian defense minister ivanov called sunday for the creation of a joint front for combating global terrorism .",
      s: "1.1 1.05 0.98 0.2 0.1 -0.6 -0.4 -0.8 0.3 -0.5 -0.9 0.75 0.82 0.1 0.7 0.62 0.95 -1",
      f: "0.2",
    }),
  },
  { name: "Figure 2: two scores, [t, 0]", state: row({ t: "t 0", s: "0.4 0", f: "0.1", k: "1" }) },
  {
    name: "Figure 3: a segment that contradicts “No one is dancing”",
    state: row({
      t: "A band is playing on stage at a concert and the attendants are dancing to the music .",
      s: "-0.3 0.8 0.72 0.85 0.1 0 -0.4 -0.5 0.15 -0.6 -0.5 0.2 0.35 1.15 -0.2 -0.4 0.3 -0.9",
      f: "0.25",
    }),
  },
  {
    name: "Figure 4: clusters of oscarmax, far apart",
    state: row({
      t: "le conflit armé a fait de nombreuses victimes dans la région cette année",
      s: "-0.5 0.9 0.82 -0.4 0.1 -0.6 0.3 0.86 -0.5 -0.6 0.2 -0.2 0.15",
      o: "0.12",
    }),
  },
  { name: "All scores equal", state: row({ t: "one two three four five six", s: "0 0 0 0 0 0", k: "2" }) },
  { name: "Exactly zero and very small", state: row({ t: "a b c d e f g h", s: "4 3.2 2 0 -2 -4 -6 -8" }) },
  { name: "Arabic, right to left", state: row({ t: "كتب الطالب الدرس في المكتبة صباح اليوم", s: "0.9 0.7 0.75 -0.5 0.6 0.1 0.2" }) },
  { name: "Japanese, without spaces", state: row({ t: "猫は窓の外の鳥を静かに見ている", s: "0.9 -0.3 0.4 -0.6 0.3 -0.6 0.95 -0.2 0.5 0.8" }) },
  {
    name: "200 tokens",
    state: row({
      t: Array.from({ length: 200 }, (_, i) => `w${i + 1}`).join(" "),
      s: Array.from({ length: 200 }, (_, i) => (1.6 * Math.sin(i / 9) * Math.cos(i / 31) - 0.002 * i).toFixed(2)).join(" "),
      g: "0.5",
      k: "10",
    }),
  },
];

import { parse } from 'toml';
import { isCanonicalReference } from '../../domain/model/reference.ts';
import { tomlString } from '../config/toml-text.ts';

/** A pin of another configuration file, with that file. */
export interface ForeignPin {
  readonly pin: string;
  readonly file: string;
}

/** The content of the drop-in: our pins, and the pins that would be effective without it. */
export interface PinsDropIn {
  readonly ours: readonly string[];
  readonly foreign: readonly ForeignPin[];
}

const HEADER = `# Written by stickpin. Don't edit: it is written anew whenever a bundle comes or goes, or the configuration of CRI-O changes.
# CRI-O takes pinned_images from the last file that sets it, so pins set elsewhere are repeated here. A file sorted behind this
# one must not set pinned_images.
`;
const OURS = '  # from bundles';
const FOREIGN = '  # set in ';

/**
 * The text of `99-stickpin.conf` (docs/runtime-facts.md, fact 3: `pinned_images` in
 * `[crio.image]`), sorted, each pin once. Without our pins it sets nothing, so that the list of
 * other files stays effective.
 */
export function renderPinsDropIn({ ours, foreign }: PinsDropIn): string {
  const references = [...new Set(ours)].sort();
  if (references.length === 0) return HEADER;
  const lines = [OURS, ...references.map(item)];
  const seen = new Set(references);
  let file: string | undefined;
  for (const entry of foreign) {
    if (seen.has(entry.pin)) continue;
    seen.add(entry.pin);
    if (entry.file !== file) lines.push(`${FOREIGN}${tomlString(entry.file)}`);
    file = entry.file;
    lines.push(item(entry.pin));
  }
  return `${HEADER}\n[crio.image]\npinned_images = [\n${lines.join('\n')}\n]\n`;
}

/**
 * The inverse of {@link renderPinsDropIn}. Returns undefined for any other text. The empty file of
 * tmpfiles.d counts as no pins.
 */
export function parsePinsDropIn(text: string): PinsDropIn | undefined {
  if (text === '') return { ours: [], foreign: [] };
  const ours: string[] = [];
  const foreign: ForeignPin[] = [];
  let file: string | undefined;
  for (const line of text.split('\n')) {
    if (line.startsWith(FOREIGN)) file = unquote(line.slice(FOREIGN.length));
    if (!line.startsWith('  "')) continue;
    const pin = unquote(line.trim().replace(/,$/, ''));
    if (pin === undefined) return undefined;
    if (file === undefined) ours.push(pin);
    else foreign.push({ pin, file });
  }
  const content = { ours, foreign };
  return renderPinsDropIn(content) === text ? content : undefined;
}

/**
 * Our pins in a text that may be damaged or from another version. If {@link parsePinsDropIn} can
 * parse it, its pins; otherwise every image reference by digest before the foreign pins.
 */
export function recoverPins(text: string): readonly string[] {
  const content = parsePinsDropIn(text);
  if (content !== undefined) return content.ours;
  const end = text.indexOf(`\n${FOREIGN}`);
  const head = end < 0 ? text : text.slice(0, end);
  const quoted = [...head.matchAll(/"([^"\\\s]+@sha256:[0-9a-f]{64})"/g)].map(([, pin = '']) => pin);
  return [...new Set(quoted.filter(isCanonicalReference))].sort();
}

function item(pin: string): string {
  return `  ${tomlString(pin)},`;
}

function unquote(text: string): string | undefined {
  try {
    return (parse(`text = ${text}`) as { text: string }).text;
  } catch {
    return undefined;
  }
}

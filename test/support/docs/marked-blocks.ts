import { readFileSync } from 'node:fs';

/** A block of commands in a Markdown page, with the mark in the comment above it. */
interface MarkedBlock {
  /**
   * `run`: a test runs it, and asks for it by its name. `unproven`: none can; `name` is the reason.
   */
  readonly kind: 'run' | 'unproven';
  readonly name: string;
  readonly text: string;
}

/**
 * All blocks of shell commands of a page, in order.
 *
 * @throws Error when a block has no mark, so that nobody would notice that no test runs it
 */
export function markedBlocks(path: string): readonly MarkedBlock[] {
  const page = readFileSync(path, 'utf8');
  return [...page.matchAll(/^(.*)\n```sh\n([\s\S]*?)^```$/gm)].map(([, above = '', text = '']) => {
    const [, kind, name = ''] = /^<!-- (run|unproven): (.+) -->$/.exec(above) ?? [];
    if (kind !== 'run' && kind !== 'unproven') throw new Error(`${path}: no mark above the block\n${text}`);
    return { kind, name, text };
  });
}

/** The commands that a page shows under a name. @throws Error when there are none */
export function commandsOf(path: string, name: string): string {
  const block = markedBlocks(path).find((marked) => marked.kind === 'run' && marked.name === name);
  if (block === undefined) throw new Error(`${path} has no block 'run: ${name}'`);
  return block.text;
}

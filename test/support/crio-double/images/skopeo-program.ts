import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { access, mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { DoubleOptions } from '../options.ts';

/**
 * Copies of the program. They stay for later doubles, since the program is large: a double starts
 * many times in a test run, and the disk has other work.
 */
const COPIES = '/var/tmp/stickpin-crio-double';

/**
 * The command line of a skopeo that tells registries it is CRI-O (docs/runtime-facts.md, fact 28).
 * skopeo has no option for its `User-Agent`: the text is a constant of the program, so a copy of
 * the program has another one. A command that is not skopeo stays as it is.
 */
export async function skopeoAsCrio({
  skopeo,
  version,
}: Pick<DoubleOptions, 'skopeo' | 'version'>): Promise<DoubleOptions['skopeo']> {
  // The command may run in a mount namespace of its own, so the program is looked at from there.
  const inside = async (script: string) => outputOf([...skopeo.slice(0, -1), 'sh', '-c', script, skopeo.at(-1) ?? '']);
  const stamp = (await inside('stat -L -c %s-%Y "$(command -v "$0")"')).toString().trim();
  const copy = join(COPIES, `skopeo-${stamp}-as-${version}`);
  if (!(await isThere(copy))) {
    const bytes = await inside('cat "$(command -v "$0")"');
    if (!renameIn(bytes, `cri-o/${version}`)) return skopeo;
    await mkdir(COPIES, { recursive: true });
    const staged = `${copy}.${randomBytes(8).toString('hex')}`;
    await writeFile(staged, bytes, { mode: 0o755 });
    await rename(staged, copy);
  }
  const [first = copy, ...rest] = [...skopeo.slice(0, -1), copy];
  return [first, ...rest];
}

async function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

/** Whether the constant was found and replaced. HTTP takes away the spaces at the end. */
function renameIn(bytes: Buffer, name: string): boolean {
  const at = bytes.indexOf('skopeo/1.');
  const [found = ''] = at < 0 ? [] : (/^skopeo\/\d+\.\d+\.\d+/.exec(bytes.toString('latin1', at, at + 20)) ?? []);
  if (found === '') return false;
  if (name.length > found.length) throw new Error(`"${name}" does not fit in place of "${found}"`);
  bytes.write(name.padEnd(found.length), at, 'latin1');
  return true;
}

async function outputOf([program = '', ...args]: readonly string[]): Promise<Buffer> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const chunks: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
  await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  return Buffer.concat(chunks);
}

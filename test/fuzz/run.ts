import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { markdownTable } from '../bench/markdown-table.ts';
import { bundleProgram } from '../support/bundles/bundle-program.ts';
import { have, programPath } from '../support/requirements.ts';
import { trixieArgv, trixieRoot } from '../support/rootfs/trixie-root.ts';

/*
 * `npm run fuzz [-- TARGET...] [--seconds N]`: runs each target with inputs that jazzer.js makes,
 * guided by coverage, and prints a table. It ends with 1 when there is a finding. New inputs that
 * reach more are in `.cache/fuzz/TARGET/found`.
 */

const CORPUS = 'test/fuzz/corpus';
const WORK = '.cache/fuzz';
const PROGRAM = `${WORK}/main.cjs`;
/** Of one input. The machine may be busy. */
const INPUT_TIMEOUT_MS = 25_000;
const MEMORY_MB = 1_024;

/** What a run of a target has shown, as libFuzzer prints it. */
interface Outcome {
  readonly target: string;
  readonly runs: string;
  /** Covered edges: by the corpus, and at the end. */
  readonly edges: readonly [string, string];
  readonly isFinding: boolean;
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { seconds: { type: 'string', default: '30' } },
});
const known = readdirSync(CORPUS);
const unknown = positionals.find((name) => !known.includes(name));
if (unknown !== undefined) throw new Error(`${unknown} is no target; the targets are ${known.join(', ')}`);
if (!/^[1-9]\d*$/.test(values.seconds)) throw new Error(`--seconds ${values.seconds} is no number of seconds`);

const isHere = Number(glibcVersion().split('.')[1]) >= 38;
/** jazzer.js' library is linked against it. The tests get one with their root folder of Debian. */
const glibc = {
  name: 'glibc 2.38',
  isMet: () => isHere || (process.getuid?.() === 0 && programPath('mmdebstrap') !== undefined),
  remedy: 'or run as root on Debian with mmdebstrap',
};
if (have(glibc)) await run(positionals.length > 0 ? positionals : known);

function glibcVersion(): string {
  const { header } = process.report.getReport() as { readonly header: { readonly glibcVersionRuntime?: string } };
  return header.glibcVersionRuntime ?? '';
}

async function run(targets: readonly string[]): Promise<void> {
  await bundleProgram('test/fuzz/main.ts', PROGRAM);
  if (!isHere) await trixieRoot();
  const node = isHere ? [process.execPath] : trixieArgv(process.execPath);
  const outcomes: Outcome[] = [];
  const queue = [...targets];
  const worker = async () => {
    for (let target = queue.shift(); target !== undefined; target = queue.shift()) {
      outcomes.push(await fuzz(node, target));
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, worker));
  const rows = outcomes.map(({ target, runs, edges: [before, after], isFinding }) => {
    return [target, runs, before, after, String(readdirSync(foundBy(target)).length), isFinding ? 'yes' : ''];
  });
  const header = ['target', 'runs', 'edges of the corpus', 'edges', 'new inputs', 'finding'];
  process.stdout.write(markdownTable(header, rows.sort()));
  process.exitCode = outcomes.some(({ isFinding }) => isFinding) ? 1 : 0;
}

function foundBy(target: string): string {
  return join(WORK, target, 'found');
}

async function fuzz(node: readonly string[], target: string): Promise<Outcome> {
  const folder = join(WORK, target);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(foundBy(target), { recursive: true });
  writeFileSync(join(folder, 'words'), wordsOf(target));
  const program = fileURLToPath(import.meta.resolve('@jazzer.js/core/dist/cli.js'));
  const [file = '', ...args] = [...node, program, PROGRAM, foundBy(target), join(CORPUS, target)];
  const limits = [`-max_total_time=${values.seconds}`, `-rss_limit_mb=${MEMORY_MB}`];
  const places = [`-artifact_prefix=${folder}/`, `-dict=${folder}/words`];
  const child = spawn(file, [...args, `--timeout=${INPUT_TIMEOUT_MS}`, '--', ...limits, ...places], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, STICKPIN_FUZZ_TARGET: target },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (bytes) => (output += String(bytes)));
  const [code] = (await once(child, 'close')) as [number | null];
  const edges = [...output.matchAll(/ cov: (\d+) /g)].map(([, count = '']) => count);
  const isFinding = code !== 0;
  if (isFinding) report(target, output);
  return {
    target,
    runs: [...output.matchAll(/(?:Done |#)(\d+)(?: runs|\t)/g)].at(-1)?.[1] ?? '',
    edges: [edges[0] ?? '', edges.at(-1) ?? ''],
    isFinding,
  };
}

function report(target: string, output: string): void {
  const folder = join(WORK, target);
  const file = readdirSync(folder).find((name) => /^(?:crash|oom|timeout)-/.test(name));
  const next =
    file === undefined
      ? 'it left no input'
      : `to see it again: cp ${join(folder, file)} ${CORPUS}/${target}/ && npm run test:unit -- test/unit/fuzz`;
  const last = output
    .split('\n')
    .slice(-40)
    .map((line) => line.slice(0, 300));
  process.stdout.write(`${last.join('\n')}\n${target}: ${next}\n`);
}

/** Names of members, which mutation alone would not find. */
function wordsOf(target: string): string {
  const inputs = readdirSync(join(CORPUS, target)).map((name) => readFileSync(join(CORPUS, target, name), 'utf8'));
  const words = new Set(inputs.flatMap((text) => text.match(/"[\w.-]{2,32}"/g) ?? []));
  return [...words].map((word) => `${JSON.stringify(word)}\n`).join('');
}

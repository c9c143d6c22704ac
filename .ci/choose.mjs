import { execFileSync } from 'node:child_process';
import { argv } from 'node:process';

/*
 * Prints the test files that .ci/run runs, one a line: `choose.mjs integration` or
 * `choose.mjs e2e`. Some are run for each commit. The others take turns: each commit runs a fifth
 * of them, so that five commits in a row run all. .ci/deep runs all at once.
 */

/** Those of every commit: each room, one whole story for each runtime, one guest. */
const ALWAYS = {
  integration: [
    ...['api', 'containerd', 'crio-double', 'doctor', 'host', 'media', 'platform', 'registry', 'runtime', 'store'],
    ...['bundle', 'systemd', 'daemon/runtime/serve-', 'daemon/runtime/containerd.', 'daemon/runtime/crio.'],
    ...['daemon/preload/load.', 'daemon/release/lifecycle.', 'daemon/state/lost-state.', 'daemon/trust/trust.'],
    ...['factory/readme-page.', 'fleet/identity.', 'fleet/order.', 'fleet/peers.', 'packaging/install.'],
  ],
  e2e: ['crio-node.'],
};
const TURNS = 5;

const kind = argv[2];
if (!Object.hasOwn(ALWAYS, kind)) throw new Error('usage: choose.mjs integration|e2e');
const git = (...args) => execFileSync('git', args, { encoding: 'utf8' }).trim();
const files = git('ls-files', `test/${kind}`)
  .split('\n')
  .filter((path) => path.endsWith('.test.ts'));
const isAlways = (path) => ALWAYS[kind].some((start) => path.startsWith(`test/${kind}/${start}`));
const others = files.filter((path) => !isAlways(path));
const turn = Number(git('rev-list', '--count', 'HEAD')) % TURNS;
for (const path of files) if (isAlways(path) || others.indexOf(path) % TURNS === turn) console.log(path);

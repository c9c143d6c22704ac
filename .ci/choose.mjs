import { execFileSync } from 'node:child_process';
import { argv } from 'node:process';

/*
 * Prints the test files that .ci/run runs, one a line: `choose.mjs integration` or
 * `choose.mjs e2e`. Some are run for each commit. The others take turns, so that ten commits in a
 * row run each of them. .ci/deep runs all at once.
 */

/** Those of every commit: each room, one whole story for each runtime, one guest. */
const ALWAYS = {
  integration: [
    ...['api', 'containerd', 'crio-double', 'doctor', 'host', 'media', 'platform', 'registry', 'runtime', 'store'],
    ...['bundle', 'systemd', 'daemon/runtime/serve-', 'daemon/runtime/containerd.', 'daemon/runtime/crio.'],
    ...['daemon/preload/load.', 'daemon/release/lifecycle.', 'daemon/state/lost-state.', 'daemon/trust/trust.'],
    ...['factory/create', 'factory/delta.', 'factory/release', 'factory/signatures.', 'factory/write-tar.'],
    ...['factory/readme-page.', 'fleet/identity.', 'fleet/order.', 'fleet/peers.'],
    ...['packaging/install.', 'packaging/release.'],
  ],
  e2e: ['crio-node.', 'power-after-done.'],
};
/** A guest takes up to 17 minutes: two of the long ones in one turn would take half an hour. */
const TURNS = { integration: 5, e2e: 10 };

const kind = argv[2];
if (!Object.hasOwn(ALWAYS, kind)) throw new Error('usage: choose.mjs integration|e2e');
const git = (...args) => execFileSync('git', args, { encoding: 'utf8' }).trim();
const files = git('ls-files', `test/${kind}`)
  .split('\n')
  .filter((path) => path.endsWith('.test.ts'));
const isAlways = (path) => ALWAYS[kind].some((start) => path.startsWith(`test/${kind}/${start}`));
const others = files.filter((path) => !isAlways(path));
const turn = Number(git('rev-list', '--count', 'HEAD')) % TURNS[kind];
for (const path of files) if (isAlways(path) || others.indexOf(path) % TURNS[kind] === turn) console.log(path);

/**
 * `npm run bench`: what the daemon and the commands cost, beside what a user would use instead, in
 * one run. Prints tables and fails no test. Needs root, the trixie root folder of the integration
 * tests, and `npm run build` before it (the script does that). `npm run bench -- SECTION` runs one
 * section; those that take a quarter of an hour or more (`ALONE`) run only that way. With
 * `STICKPIN_BENCH=small` all sections run once with small images, to see that they work.
 */
import { cpus, loadavg } from 'node:os';
import { trixieRoot } from '../support/rootfs/trixie-root.ts';
import { benchBundleCommands } from './bundle-commands.ts';
import { benchDaemon } from './daemon.ts';
import { runDaemonChild } from './daemon-child.ts';
import { benchFactory } from './factory.ts';
import { CROWD_CHILD, runCrowdChild } from './fleet/crowd-child.ts';
import { benchFleet } from './fleet/fleet.ts';
import { benchGuest } from './guest/guest.ts';
import { benchAttack } from './load/attack.ts';
import { runRegistryChild } from './load/registry-child.ts';
import { benchServe } from './load/serve-load.ts';
import { benchActivation } from './preload/activation.ts';
import { benchExtent } from './preload/extent.ts';
import { benchGrowth } from './preload/growth.ts';
import { benchPreload } from './preload/preload.ts';
import { benchReady } from './preload/ready.ts';
import { SECTION_LIMIT_MS, sized } from './size.ts';
import { benchStickToReady } from './stick-to-ready/stick-to-ready.ts';

/**
 * `parts`: what follows the name of the section on the command line. Only `stick-to-ready` and
 * `fleet` have parts.
 */
type Section = (print: (text: string) => void, ...parts: readonly string[]) => Promise<void>;

const SECTIONS: Readonly<Record<string, Section>> = {
  bundle: benchBundleCommands,
  factory: benchFactory,
  daemon: benchDaemon,
  preload: benchPreload,
  'stick-to-ready': benchStickToReady,
  ready: benchReady,
  serve: benchServe,
  growth: benchGrowth,
  extent: benchExtent,
  activation: benchActivation,
  attack: benchAttack,
  guest: benchGuest,
  fleet: benchFleet,
};

/** Take a quarter of an hour or more each: measured only when they are asked for. */
const ALONE: readonly string[] = ['guest', 'activation', 'fleet', 'stick-to-ready', 'extent'];

/** Need no runtime, and so no trixie root folder. */
const PLAIN: readonly (string | undefined)[] = ['bundle', 'factory', 'attack', 'serve', 'fleet', 'extent'];

async function main(): Promise<void> {
  const [wanted, ...args] = process.argv.slice(2);
  if (wanted === 'daemon-child') return runDaemonChild(args[0] ?? '', args[1] ?? '');
  if (wanted === CROWD_CHILD) return runCrowdChild(args[0] ?? '');
  if (wanted === 'registry-child') return runRegistryChild(args[0] ?? '', args[1]);
  const print = (text: string) => void process.stdout.write(text);
  const usual = Object.keys(SECTIONS).filter((name) => !ALONE.includes(name));
  const names = wanted === undefined ? sized(usual, Object.keys(SECTIONS)) : [wanted];
  if (!PLAIN.includes(wanted)) await trixieRoot();
  print(`${cpus().length} cores, Node ${process.version}, load ${loadavg()[0]?.toFixed(1)} before\n`);
  for (const name of names) {
    const section = SECTIONS[name];
    if (section === undefined) throw new Error(`there is no section ${name}: ${Object.keys(SECTIONS).join(', ')}`);
    const startedAt = performance.now();
    await withinLimit(name, section(print, ...(wanted === name ? args : [])));
    print(`\n${name} took ${Math.round((performance.now() - startedAt) / 1000)} s\n`);
  }
}

/** Ends the program when a section takes too long: what it waits for never comes. */
async function withinLimit(name: string, section: Promise<void>): Promise<void> {
  const limit = setTimeout(() => {
    process.stderr.write(`${name} is not over after ${SECTION_LIMIT_MS / 60_000} minutes\n`);
    process.exit(1);
  }, SECTION_LIMIT_MS);
  await section;
  clearTimeout(limit);
}

await main();

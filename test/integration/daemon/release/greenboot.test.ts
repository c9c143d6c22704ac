import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { have, program } from '../../../support/requirements.ts';

const script = new URL('../../../../docs/examples/greenboot.sh', import.meta.url).pathname;
const LATER_S = 3_600;

/** greenboot runs `*.sh` of its folders with bash; the command line is a double over a daemon. */
describe.runIf(have(program('jq', 'apt-get install jq')))("greenboot's verdict on a boot", () => {
  const root = folderForEach();
  let node: DaemonHarness;

  beforeEach(async () => {
    for (const folder of ['bin', 'green.d', 'red.d']) mkdirSync(join(root, folder));
    for (const folder of ['green.d', 'red.d']) copyFileSync(script, join(root, folder, '50_stickpin.sh'));
    node = await createDaemonHarness();
    await node.start();
    answers();
  });
  afterEach(() => node.stop());

  /** @param refusals how often it finds no daemon */
  function answers(refusals = 0): void {
    writeFileSync(join(root, 'calls'), '');
    writeFileSync(join(root, 'refusals'), 'x\n'.repeat(refusals));
    const lines = [
      '#!/bin/sh',
      `if [ -s ${root}/refusals ]; then sed -i 1d ${root}/refusals; exit 3; fi`,
      `if [ "$1" = list ]; then exec cat ${root}/list; fi`,
      `echo "$*" >>${root}/calls`,
    ];
    writeFileSync(join(root, 'bin/stickpin'), `${lines.join('\n')}\n`, { mode: 0o755 });
  }

  /** Runs the script as after a boot, and does what it asks of the daemon. @returns the calls */
  async function judge(verdict: 'green' | 'red', bootedInS = LATER_S, streams = 'ocp microshift') {
    writeFileSync(join(root, 'list'), JSON.stringify({ bundles: node.report().bundles }, null, 2));
    writeFileSync(join(root, 'stat'), `cpu 1 2\nbtime ${Math.floor(Date.now() / 1_000) + bootedInS}\nprocesses 1\n`);
    writeFileSync(join(root, 'calls'), '');
    const env = {
      PATH: `${join(root, 'bin')}:${process.env.PATH}`,
      STREAMS: streams,
      STAT: join(root, 'stat'),
      PAUSE: '0.01',
    };
    const child = spawn('bash', [join(root, `${verdict}.d/50_stickpin.sh`)], {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const [output, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')]);
    expect([code, output]).toEqual([0, '']);
    const calls = readFileSync(join(root, 'calls'), 'utf8').trim().split('\n').filter(Boolean);
    for (const [verb, what = ''] of calls.map((call) => call.split(' '))) {
      if (verb === 'prove') node.engine.commands.prove({ bundle: what });
      else node.engine.commands.rollback({ stream: what });
    }
    return calls;
  }
  async function load(sequence: number): Promise<void> {
    const { path } = await node.make({ version: `1.${sequence}.0`, sequence });
    node.plug(path);
    await node.until(({ bundles }) =>
      bundles.some(({ version, phase }) => version === `1.${sequence}.0` && phase === 'activated'),
    );
    await node.takeOut();
  }
  const phases = () => Object.fromEntries(node.report().bundles.map(({ version, phase }) => [version, phase]));

  it('proves what the node booted with, and rolls back what a bad boot never proved', async () => {
    await load(1);
    expect(await judge('green')).toEqual(['prove ocp@1.1.0']);
    await node.until(({ bundles }) => bundles[0]?.phase === 'proven');
    // What is proven stays: a later bad boot has another cause.
    expect([await judge('green'), await judge('red')]).toEqual([[], []]);

    await load(2);
    expect(await judge('red')).toEqual(['rollback ocp']);
    await node.until(({ bundles }) => bundles.some(({ version, current }) => version === '1.1.0' && current));
    // The one to which the node went back stays, and the next good boot proves it again.
    expect(await judge('red')).toEqual([]);
    expect(await judge('green')).toEqual(['prove ocp@1.1.0']);
    await node.until(() => phases()['1.1.0'] === 'proven');

    await load(3);
    expect(await judge('red')).toEqual(['rollback ocp']);
  });

  it('says nothing about a release that came after the boot, or about other streams', async () => {
    await load(1);
    for (const verdict of ['green', 'red'] as const) {
      expect(await judge(verdict, -LATER_S)).toEqual([]);
      expect(await judge(verdict, LATER_S, 'ocp-extra oc')).toEqual([]);
    }
  });

  it('waits for a daemon that is starting', async () => {
    await load(1);
    answers(4);
    expect(await judge('green')).toEqual(['prove ocp@1.1.0']);
  });
});

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { definedProgram } from '../../../src/cli/manual.ts';
import { loadSettings } from '../../../src/config/load-settings.ts';
import { sampleImage, writeOciLayout } from '../../support/bundles/sample-image.ts';
import { faultOf } from '../../support/docs/command-lines.ts';
import { commandsOf, markedBlocks } from '../../support/docs/marked-blocks.ts';
import { runBlocks, stickpinOnPath } from '../../support/docs/run-blocks.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';

const PAGE = 'docs/operate.md';
const MADE = ['key', 'stick'];
/** Run in a machine by test/e2e/bookworm.test.ts. */
const ON_A_NODE = ['node', 'look'];
/** Run by test/integration/daemon/state/drive-replaced.test.ts. */
const AFTERWARDS = ['activate what runs', 'is it back', 'is it ready'];
const directory = folderForAll();

describe('docs/operate.md', () => {
  it('makes a key and a stick with the commands that it shows', async () => {
    const layout = join(directory, 'layout');
    writeOciLayout(layout, [{ image: sampleImage({ seed: 'etcd', architecture: 'amd64' }), names: ['etcd'] }]);
    writeFileSync(join(directory, 'images.txt'), `etcd=quay.example.com/coreos/etcd:3.5.9=oci:${layout}:etcd\n`);
    const programs = await stickpinOnPath(join(directory, 'bin'));
    const said = await runBlocks([commandsOf(PAGE, 'key'), commandsOf(PAGE, 'stick')], { directory, programs });
    expect(said).toMatch(/^\S.*ocp 4\.13\.7.*: signature by factory-2026 ok, \d+ of \d+ blobs read and right$/m);
    const run = markedBlocks(PAGE).filter(({ kind }) => kind === 'run');
    expect(run.map(({ name }) => name)).toEqual([...MADE, ...ON_A_NODE, ...AFTERWARDS]);
  });
});

describe('the playbook for Ansible', () => {
  const [play] = parse(readFileSync('docs/examples/ansible-stickpin.yml', 'utf8')) as [
    { hosts: string; tasks: readonly Readonly<Record<string, unknown>>[] },
  ];

  it('runs commands that exist, and writes settings that are valid', async () => {
    const commands = play.tasks.flatMap((task) => task['ansible.builtin.command'] ?? []) as string[];
    expect(commands).toHaveLength(2);
    for (const command of commands) {
      const [program, ...words] = command.split(' ');
      expect(program).toBe('stickpin');
      expect(faultOf({ line: 0, words }, definedProgram())).toBeUndefined();
    }
    const [settings] = play.tasks.flatMap((task) => {
      const copy = task['ansible.builtin.copy'] as { dest: string; content?: string } | undefined;
      return copy?.content === undefined ? [] : [copy];
    });
    const file = join(directory, 'stickpin.toml');
    writeFileSync(file, settings?.content ?? '');
    const loaded = await loadSettings({ fragments: [{ file, required: true }] }, new AbortController().signal);
    expect(loaded.update).toMatchObject({ strategy: 'window', windows: [{ lengthMinutes: 120 }] });
  });
});

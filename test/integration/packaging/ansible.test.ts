import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { definedProgram } from '../../../src/cli/manual.ts';
import { loadSettings } from '../../../src/config/load-settings.ts';
import { WAIT_GOALS } from '../../../src/domain/fleet/turn.ts';
import { startDaemonOnBus } from '../../support/bus/daemon-on-bus.ts';
import { fakeBackend, idleReport, sampleReport } from '../../support/bus/fake-backend.ts';
import { startPrivateBus } from '../../support/bus/private-bus.ts';
import { faultOf } from '../../support/docs/command-lines.ts';
import { stickpinOnPath } from '../../support/docs/run-blocks.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';
import { have } from '../../support/requirements.ts';
import { execute } from '../../support/rootfs/execute.ts';

const FOLDER = 'docs/examples/ansible';
const ROLE = `${FOLDER}/roles/stickpin`;
const directory = folderForAll();

type Task = Readonly<Record<string, unknown>>;

const yaml = <T>(path: string) => parse(readFileSync(path, 'utf8')) as T;

it('runs commands that exist, and writes settings that are valid', async () => {
  const tasks = yaml<readonly Task[]>(`${ROLE}/tasks/main.yml`);
  const commands = tasks.flatMap((task) => (task['ansible.builtin.command'] ?? []) as string | { argv: string[] });
  const words = commands.map((command) => (typeof command === 'string' ? command.split(' ') : command.argv));
  expect(words.map(([program, command]) => `${program} ${command}`)).toEqual([
    'stickpin config',
    'stickpin doctor',
    'stickpin wait',
  ]);
  for (const [, ...rest] of words) expect(faultOf({ line: 0, words: rest }, definedProgram())).toBeUndefined();
  const [play] = yaml<readonly { roles: readonly { vars: { stickpin_settings: string } }[] }[]>(
    `${FOLDER}/stickpin.yml`,
  );
  const file = join(directory, 'example.toml');
  writeFileSync(file, play?.roles[0]?.vars.stickpin_settings ?? '');
  const loaded = await loadSettings({ fragments: [{ file, required: true }] }, new AbortController().signal);
  expect(loaded.update).toMatchObject({ strategy: 'window', windows: [{ lengthMinutes: 120 }] });
});

it('describes each variable, with the phases that stickpin wait takes', () => {
  const defaults = yaml<Record<string, unknown>>(`${ROLE}/defaults/main.yml`);
  const { argument_specs } = yaml<{ argument_specs: { main: { options: Record<string, { choices?: unknown }> } } }>(
    `${ROLE}/meta/argument_specs.yml`,
  );
  const { options } = argument_specs.main;
  expect(Object.keys(options)).toEqual(Object.keys(defaults));
  expect(options.stickpin_wait_for?.choices).toEqual([...WAIT_GOALS]);
});

it.runIf(have('ansible-playbook', 'dbus-daemon'))(
  'sets up the machine that runs it, restarts the daemon for new settings only, and waits for the release',
  async () => {
    const at = (...names: string[]) => join(directory, ...names);
    const programs = await stickpinOnPath(at('bin'));
    // systemctl(1) of this machine must not be touched. Its answers are those of a unit that runs.
    writeFileSync(
      join(programs, 'systemctl'),
      `#!/bin/sh
echo "$*" >> '${at('systemctl.log')}'
case $1 in show) printf 'Id=stickpin.service\\nLoadState=loaded\\nActiveState=active\\nUnitFileState=enabled\\n' ;; esac
`,
    );
    chmodSync(join(programs, 'systemctl'), 0o755);
    mkdirSync(at('keys'));
    writeFileSync(at('keys', 'factory-2026.pub'), 'a key\n');
    mkdirSync(at('etc', 'keys.d'), { recursive: true });
    writeFileSync(at('nodes.ini'), '[nodes]\nlocalhost ansible_connection=local\n');
    const settings = '[update]\nstrategy = "manual"\n';
    const play = (release: string) => [
      {
        hosts: 'nodes',
        roles: [{ role: 'stickpin' }],
        vars: {
          stickpin_keys: `${at('keys')}/`,
          stickpin_settings: settings,
          stickpin_settings_file: at('etc', 'stickpin.toml'),
          stickpin_keys_dir: `${at('etc', 'keys.d')}/`,
          // This machine is no node.
          stickpin_doctor: false,
          stickpin_release: release,
          stickpin_wait_timeout: '0',
        },
      },
    ];
    await using bus = await startPrivateBus();
    const [release] = sampleReport().bundles;
    const report = idleReport({ bundles: release === undefined ? [] : [{ ...release, phase: 'ready' }] });
    const stop = await startDaemonOnBus(
      bus.address,
      fakeBackend({}, () => report),
    );
    const env = {
      ...process.env,
      PATH: [programs, process.env.PATH].join(delimiter),
      DBUS_SYSTEM_BUS_ADDRESS: bus.address,
      ANSIBLE_ROLES_PATH: join(process.cwd(), FOLDER, 'roles'),
      ANSIBLE_LOCAL_TEMP: at('local'),
      ANSIBLE_REMOTE_TEMP: at('remote'),
      ANSIBLE_NOCOLOR: '1',
      HOME: directory,
    };
    const run = async (name: string) => {
      // JSON is YAML.
      writeFileSync(at('play.yml'), JSON.stringify(play(name)));
      return execute(['ansible-playbook', '--inventory', at('nodes.ini'), at('play.yml')], { env });
    };
    try {
      expect(await run('ocp@4.13.7')).toMatch(/changed=[1-9].*failed=0/);
      expect(readFileSync(at('etc', 'stickpin.toml'), 'utf8')).toBe(settings);
      expect(readFileSync(at('etc', 'keys.d', 'factory-2026.pub'), 'utf8')).toBe('a key\n');
      const restarts = () => readFileSync(at('systemctl.log'), 'utf8').match(/^restart stickpin\.service$/gm) ?? [];
      expect(restarts()).toHaveLength(1);
      expect(await run('ocp@4.13.7')).toMatch(/changed=0 .*failed=0/);
      expect(restarts()).toHaveLength(1);
      await expect(run('ocp@4.14.0')).rejects.toThrow();
    } finally {
      await stop();
    }
  },
  120_000,
);

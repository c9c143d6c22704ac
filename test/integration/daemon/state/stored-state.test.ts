import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import Database from 'better-sqlite3';
import * as v from 'valibot';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { commandAdapters } from '../../../../src/app/command-line/command-adapters.ts';
import { createStoredState } from '../../../../src/app/command-line/stored-state.ts';
import { NODE_DOCUMENTS } from '../../../../src/cli/schema/documents.ts';
import { bundleProgram } from '../../../support/bundles/bundle-program.ts';
import { makeSampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { have } from '../../../support/requirements.ts';
import { runCommand } from '../../../support/run-command.ts';
import { damageDatabase } from '../../../support/state/damage-database.ts';

let harness: DaemonHarness;
let bundleId: string;
let references: readonly string[];

/** A command line on a node whose daemon does not run. */
const run = (...args: readonly string[]) =>
  runCommand(args, {
    env: { DBUS_SYSTEM_BUS_ADDRESS: 'unix:path=/nonexistent/bus' },
    adapters: { ...commandAdapters, storedState: createStoredState(async () => harness.settings.paths) },
  });
const READ_RECORDS = fileURLToPath(new URL('../../../support/daemon/read-records.ts', import.meta.url));
const RFC_3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const copies = () => readdirSync(tmpdir()).filter((name) => name.startsWith('stickpin-state-copy-'));

/** Runs `use` without any status.json. */
async function withoutStatus(use: () => Promise<void>): Promise<void> {
  const { run_dir: run, state_dir: state } = harness.settings.paths;
  const kept = [run, state]
    .map((folder) => join(folder, 'status.json'))
    .map((path) => [path, readFileSync(path)] as const);
  try {
    for (const [path] of kept) rmSync(path);
    await use();
  } finally {
    for (const [path, text] of kept) writeFileSync(path, text);
  }
}

describe('commands after the daemon has ended', () => {
  beforeAll(async () => {
    harness = await createDaemonHarness();
    const bundle = await makeSampleBundle({ dir: join(harness.base, 'factory'), keys: [harness.key] });
    await harness.start();
    harness.plug(bundle.path);
    const done = await harness.until(({ bundles }) => bundles[0]?.phase === 'activated', 30_000);
    bundleId = done.bundles[0]?.bundleId ?? '';
    references = bundle.contents.images.map(({ reference }) => reference);
    await harness.stop();
  });
  afterAll(() => harness.dispose());

  it('status and list show what it wrote last, say so, and still tell by the exit code that it is down', async () => {
    const status = await run('status');
    expect(status).toMatchObject({
      exitCode: 3,
      stdout: expect.stringMatching(/^The daemon does not run\. This is the state of \S+Z\.\n.+\nRuntime: embedded/),
    });
    expect(status.stderr).toMatch(
      /^stickpin: The D-Bus system bus can't be reached.+\. Shown is what it wrote on \d{4}-\S+Z\n$/,
    );
    const json = JSON.parse((await run('status', '--json')).stdout);
    expect(json).toMatchObject({
      schemaVersion: 1,
      writtenAt: expect.stringMatching(RFC_3339),
      bundles: [{ bundleId }],
    });
    const list = await run('list');
    expect(list).toMatchObject({ exitCode: 3, stdout: expect.stringContaining('activated (current)') });
    expect(JSON.parse((await run('list', '--json')).stdout)).toMatchObject({ writtenAt: json.writtenAt });
  });

  it('show reads the database, completed by what the daemon wrote last', async () => {
    const { exitCode, stdout, stderr } = await run('show', bundleId);
    expect(exitCode).toBe(3);
    expect(stdout).toContain('AllImagesPresent');
    expect(stderr).toMatch(/Shown is what it recorded, and what it wrote on \S+Z\n$/);
    expect(await run('show', 'ocp@9')).toMatchObject({ exitCode: 1, stdout: '' });
    expect(copies()).toEqual([]);
  });

  it('show has what is in the database only', async () => {
    const before = await run('show', bundleId, '--json');
    await withoutStatus(async () => {
      const { exitCode, stdout, stderr } = await run('show', bundleId, '--json');
      const { name, version, adoptedAt, readyAt, activatedAt, images } = JSON.parse(before.stdout);
      const shown = JSON.parse(stdout);
      expect(exitCode).toBe(3);
      expect(shown).toMatchObject({ name, version, adoptedAt, readyAt, activatedAt, phase: 'activated' });
      expect(shown.images).toEqual({ total: images.total });
      expect(v.parse(NODE_DOCUMENTS.show, shown)).toEqual(shown);
      expect(stderr).toContain('Shown is what it recorded until it ended; status.json is missing, so nobody knows');
      expect((await run('show', bundleId)).stdout).toMatch(/^phase: +activated$/m);
    });
  });

  it('show --pinned-image-set takes the images from the database', async () => {
    const { exitCode, stdout, stderr } = await run('show', bundleId, '--pinned-image-set');
    expect(exitCode).toBe(3);
    expect(stderr).toMatch(/Shown is what it recorded until it ended\n$/);
    const { spec } = parse(stdout) as { spec: { pinnedImages: readonly { name: string }[] } };
    expect(spec.pinnedImages.map(({ name }) => name)).toEqual(references);
  });

  it('show has what the daemon wrote last when the database is damaged or missing', async () => {
    const path = join(harness.settings.paths.state_dir, 'state.db');
    const whole = readFileSync(path);
    const expectWritten = async (why: string) => {
      const { exitCode, stdout, stderr } = await run('show', bundleId);
      expect({ exitCode, phase: /^phase: +(\S+)$/m.exec(stdout)?.[1] }).toEqual({ exitCode: 3, phase: 'activated' });
      expect(stderr.split('\n')).toHaveLength(2);
      expect(stderr).toContain(`; the database ${path} can't be read: ${why}`);
    };
    try {
      const database = new Database(path);
      database.exec(`UPDATE bundle SET activated_at = 1`);
      database.close();
      await expectWritten('the table "bundle" is damaged');
      damageDatabase(path, 'header');
      await expectWritten('');
      rmSync(path);
      await expectWritten('it is missing');
    } finally {
      writeFileSync(path, whole);
    }
    expect(await run('show', bundleId)).toMatchObject({ stderr: expect.stringContaining('what it recorded, and') });
  });

  it.runIf(have('root'))('tells somebody who is not root that only root sees the database', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'stickpin-nobody-'));
    try {
      chmodSync(folder, 0o777);
      const program = join(folder, 'read-records.cjs');
      await bundleProgram(READ_RECORDS, program);
      const { state_dir: state } = harness.settings.paths;
      const options = { uid: 65534, gid: 65534, cwd: folder, env: { TMPDIR: folder }, encoding: 'utf8' } as const;
      const { stdout, stderr } = spawnSync(process.execPath, [program, state], options);
      expect(`${stdout}${stderr}`).toBe(
        `the database ${state}/state.db can't be read: only root may read it, so run this command with sudo\n`,
      );
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('history reads the database and leaves it as it is, also by name and version', async () => {
    const before = readFileSync(join(harness.settings.paths.state_dir, 'state.db'));
    const all = await run('history');
    expect(all).toMatchObject({ exitCode: 3, stdout: expect.stringContaining('is ready') });
    expect(all.stderr).toContain('Shown is what it recorded until it ended');
    const { name, version } = JSON.parse((await run('list', '--json')).stdout).bundles[0];
    const { events } = JSON.parse((await run('history', `${name}@${version}`, '--json')).stdout);
    expect(events.length).toBeGreaterThan(1);
    for (const event of events) expect(event).toMatchObject({ bundleId, at: expect.stringMatching(RFC_3339) });
    expect(await run('history', 'ocp@9')).toMatchObject({ exitCode: 1, stdout: '' });
    expect(readFileSync(join(harness.settings.paths.state_dir, 'state.db'))).toEqual(before);
    expect(copies()).toEqual([]);
  });

  it('what outlasts a boot is taken where the run directory is empty, and is told to be old', async () => {
    const { run_dir: runDirectory, state_dir: stateDirectory } = harness.settings.paths;
    rmSync(join(runDirectory, 'status.json'));
    expect((await run('status')).stderr).not.toContain('before the last boot');
    const kept = join(stateDirectory, 'status.json');
    const document = JSON.parse(readFileSync(kept, 'utf8'));
    writeFileSync(kept, JSON.stringify({ ...document, bootId: 'another' }));
    expect(await run('status')).toMatchObject({
      exitCode: 3,
      stdout: expect.stringContaining('Runtime: embedded'),
      stderr: expect.stringMatching(/Shown is what it wrote on \S+Z, before the last boot\n$/),
    });
  });

  it('without a file, or with a damaged one, there is only the reason', async () => {
    for (const text of ['{"status":', '{"status":1}', '[]', 'null']) {
      writeFileSync(join(harness.settings.paths.state_dir, 'status.json'), text);
      const { exitCode, stdout, stderr } = await run('list');
      expect({ exitCode, stdout }).toEqual({ exitCode: 3, stdout: '' });
      expect(stderr).not.toContain('Shown is');
    }
    rmSync(join(harness.settings.paths.state_dir, 'state.db'));
    expect(await run('history')).toMatchObject({
      exitCode: 3,
      stderr: expect.stringMatching(
        /^stickpin: the stickpin daemon does not run, and the database \S+ can't be read: it is missing\n$/,
      ),
    });
    writeFileSync(join(harness.settings.paths.state_dir, 'state.db'), 'rubbish'.repeat(1_000));
    const damaged = await run('history');
    expect(damaged).toMatchObject({ exitCode: 3, stderr: expect.stringContaining("state.db can't be read: ") });
    // The copy of which this was found is gone.
    expect(damaged.stderr).not.toContain('stickpin-state-copy');
    expect(copies()).toEqual([]);
  });
});

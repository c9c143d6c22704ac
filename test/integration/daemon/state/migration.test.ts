import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openNodeState } from '../../../../src/app/daemon/node-state.ts';
import { defaultSettings } from '../../../../src/domain/settings/settings.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { silentLog } from '../../../../src/platform/log.ts';
import { MIGRATIONS } from '../../../../src/store/database/migrations.ts';
import { bundleIntoCache } from '../../../support/bundles/bundle-program.ts';
import { temporaryFolder } from '../../../support/files/temporary-folder.ts';
import { have, program } from '../../../support/requirements.ts';
import { EARLIER, writeEarlierState } from '../../../support/state/earlier-state.ts';

const NAMES = ['floors.json', 'hooks.json', 'pins.json', 'revocations.json'];
const { bundle, floor, unclaimed, revoked, activatedAt } = EARLIER;

describe.runIf(have(program('strace', 'apt-get install strace')))(
  'the state directory of an earlier version',
  {
    timeout: 300_000,
  },
  () => {
    let opener: string;
    let folder: string;
    const state = () => join(folder, 'state');
    beforeEach(() => {
      folder = temporaryFolder();
    });

    beforeAll(async () => {
      opener = await bundleIntoCache('test/support/state/open-state-program.ts', 'open-state');
    });

    const prepare = () => {
      rmSync(folder, { recursive: true, force: true });
      mkdirSync(state(), { recursive: true });
      writeEarlierState(state());
    };
    const open = (inject?: string) => {
      const under = inject === undefined ? [] : ['strace', '-f', '-qq', '-o', '/dev/null', '-e', inject];
      const [command = '', ...args] = [...under, process.execPath, opener, state()];
      const env = { ...process.env, UV_THREADPOOL_SIZE: '1' };
      const { stdout, stderr, status } = spawnSync(command, args, { encoding: 'utf8', env });
      return { isKilled: status !== 0, stderr, found: status === 0 ? JSON.parse(stdout) : undefined };
    };
    const taken = {
      problems: [],
      releases: [['ocp', bundle.payload.version, activatedAt]],
      pins: expect.objectContaining({ unclaimed: [unclaimed] }),
      floors: [['ocp', floor]],
      revoked: [revoked],
      hooks: ['ready'],
    };

    it('is taken over, its files are renamed after a round, and removed at the next start', () => {
      prepare();
      expect(open().found).toEqual(taken);
      const left = () =>
        readdirSync(state()).filter((name) => NAMES.some((one) => name.startsWith(one)) || name.includes('copy'));
      // An earlier version has the unclaimed pins from no other file.
      const migrated = [
        'floors.json.migrated',
        'hooks.json.migrated',
        'pins.json',
        'revocations.json.migrated',
        'state.db.copy.migrated',
      ];
      expect(left().sort()).toEqual(migrated);
      expect(open().found).toEqual(taken);
      expect(left()).toEqual(['pins.json']);
    });

    /** What the earlier version would read: its files, and the tables that it knows. */
    const expectReturn = (how: string) => {
      const fileOf = (name: string) =>
        existsSync(join(state(), name)) ? readFileSync(join(state(), name), 'utf8') : '';
      const database = new Database(join(state(), 'state.db'));
      const text = (sql: string) => String(database.prepare(sql).pluck().get());
      expect(text('PRAGMA user_version'), how).toBe(String(MIGRATIONS.length));
      expect(text('PRAGMA integrity_check'), how).toBe('ok');
      expect(text('SELECT version FROM bundle WHERE retired_at IS NULL AND activated_at IS NOT NULL'), how).toBe(
        bundle.payload.version,
      );
      const floors = `${fileOf('floors.json')}${text('SELECT document FROM floor_record')}`;
      expect(floors, how).toContain(`["ocp",${floor}]`);
      expect(`${fileOf('revocations.json')}${text('SELECT document FROM revocation_record')}`, how).toContain(revoked);
      expect(fileOf('pins.json'), how).toContain(unclaimed);
      database.close();
    };

    it.each(['rename,renameat,renameat2,link,linkat,unlink,unlinkat,openat', 'pwrite64,ftruncate,fsync,fdatasync'])(
      'is taken over by the next start after a kill at each call of %s, and a return finds all of it',
      (calls) => {
        let kills = 0;
        // Node.js itself opens files before.
        for (let when = calls.includes('openat') ? firstOpen() : 1; ; when += 1) {
          prepare();
          const { isKilled } = open(`inject=${calls}:signal=KILL:when=${when}`);
          if (!isKilled) break;
          kills += 1;
          expectReturn(`kill ${when}`);
          expect(open().found, `kill ${when}`).toEqual(taken);
          expectReturn(`the start after kill ${when}`);
        }
        expect(kills).toBeGreaterThan(10);
      },
      900_000,
    );

    /** How many such calls come before the first that names the state. */
    function firstOpen(): number {
      prepare();
      const trace = join(folder, 'trace');
      const calls = 'rename,renameat,renameat2,link,linkat,unlink,unlinkat,openat';
      spawnSync('strace', ['-qq', '-o', trace, '-e', `trace=${calls}`, process.execPath, opener, state()], {
        encoding: 'utf8',
      });
      const lines = readFileSync(trace, 'utf8')
        .split('\n')
        .filter((line) => !line.startsWith('---'));
      return 1 + lines.findIndex((line) => line.includes(`${state()}/`));
    }

    it('with a damaged file says so, and goes on with what the database has', () => {
      prepare();
      for (const name of NAMES) writeFileSync(join(state(), name), '{');
      const { found } = open();
      expect(found.problems).toHaveLength(4);
      for (const name of NAMES) expect(found.problems).toContainEqual(expect.stringContaining(name));
      expect(found).toMatchObject({ floors: [['ocp', 7]], releases: taken.releases });
    });
  },
);

describe('a floor that an earlier version recorded in both places', () => {
  it('counts where it is higher', async () => {
    const folder = temporaryFolder();
    writeEarlierState(folder);
    const paths = { ...defaultSettings.paths, state_dir: folder, run_dir: `${folder}/run` };
    const { floors, close } = await openNodeState(
      { ...defaultSettings, paths },
      { clock: systemClock, log: silentLog },
    );
    expect([...floors.load().sequences]).toEqual([['ocp', floor]]);
    close();
  });
});

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import packageJson from '../../../package.json' with { type: 'json' };
import type { StatusReport } from '../../../src/domain/report/status-schema.ts';
import { installKeys, makeSampleBundle, type SampleBundle, sampleKey } from '../../support/bundles/sample-bundle.ts';
import { createDatagramReceiver } from '../../support/bus/datagram-receiver.ts';
import { endProcess } from '../../support/end-process.ts';
import { eventually } from '../../support/eventually.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';
import { archiveNeed, makePackages } from '../../support/packages/make-packages.ts';
import { have } from '../../support/requirements.ts';
import { unpackedRoot } from '../../support/rootfs/unpacked-root.ts';

/** An emulated start of Node takes seconds. */
const PATIENCE_MS = 120_000;
/** It is that of trixie on any host, as the one of the machine tests. */
const EMULATOR = { version: 1, suite: 'trixie', architecture: 'amd64', packages: ['qemu-user'] };
const LIBRARIES = { version: 1, suite: 'bookworm', architecture: 'arm64', packages: ['libc6', 'libstdc++6'] };

/**
 * The archive for arm64 as it is shipped, with its own Node.js and native modules, run by QEMU's
 * emulation of a user process over Debian's libraries for arm64.
 */
describe.runIf(process.arch === 'x64' && have('root', 'mmdebstrap', 'npm', archiveNeed))(
  'the archive for arm64',
  { timeout: 300_000 },
  () => {
    const work = folderForAll();
    const key = sampleKey('factory-2026');
    let emulated: readonly string[];
    let lib: string;
    let environment: NodeJS.ProcessEnv;
    let bundle: SampleBundle;
    let daemon: ChildProcess | undefined;
    const at = (name: string) => join(work, name);

    beforeAll(async () => {
      const made = await makePackages(at('made'), ['--arch', 'arm64', '--format', 'archive']).then(() =>
        at(`made/stickpin-${packageJson.version}-linux-arm64.tar.gz`),
      );
      execFileSync('tar', ['-xzf', made, '-C', work]);
      const installer = join(at(basename(made, '.tar.gz')), 'install.sh');
      execFileSync('/bin/sh', [installer, '--root', at('root'), '--crio', 'no'], { stdio: 'pipe' });
      lib = at('root/usr/lib/stickpin');
      const libraries = join(await unpackedRoot('arm64', LIBRARIES), 'usr/lib/aarch64-linux-gnu');
      emulated = [
        join(await unpackedRoot('qemu-user', EMULATOR), 'usr/bin/qemu-aarch64'),
        // QEMU_LD_PREFIX would have the program see another root folder.
        ...[join(libraries, 'ld-linux-aarch64.so.1'), '--library-path', libraries],
        join(lib, 'bin/node'),
      ];
      environment = { PATH: process.env.PATH };
      bundle = await makeSampleBundle({ dir: at('medium/stickpin'), arch: 'arm64', keys: [key] });
      installKeys(at('keys'), [key]);
    }, 600_000);
    afterAll(async () => {
      if (daemon !== undefined) await endProcess(daemon, 'SIGKILL');
    });

    function start(...args: readonly string[]): ChildProcess {
      const [qemu = '', ...node] = emulated;
      return spawn(qemu, [...node, ...args], { env: environment, cwd: work, stdio: ['ignore', 'pipe', 'pipe'] });
    }
    async function run(...args: readonly string[]): Promise<string> {
      const { stdout, stderr } = start(join(lib, 'dist/cli/main.js'), ...args);
      if (stdout === null || stderr === null) expect.unreachable();
      const [output, errors] = await Promise.all([text(stdout), text(stderr)]);
      expect(errors).toBe('');
      return output;
    }

    it('has a command line that makes keys and verifies a bundle, byte for byte', async () => {
      expect(await run('--version')).toBe(`${packageJson.version}\n`);
      expect(readFileSync(at('root/usr/lib/systemd/system/stickpin.service'), 'utf8')).toContain('/usr/lib/stickpin');
      expect(await run('keygen', '--out', 'own')).toMatch(/^key id +[0-9a-f]{64}$/m);
      expect(await run('bundle', 'verify', bundle.path, '--keys', 'keys', '--full')).toContain(
        'signature by factory-2026 ok',
      );
    });

    it('has a daemon that activates a bundle with the embedded runtime, and knows it after a restart', async () => {
      const lines = [
        ['runtime', 'kind = "embedded"'],
        ['registry', 'listen = "127.0.0.1:0"'],
        ['media', `detect = false\nincoming = "${at('incoming')}"`],
        ['trust', `keys_dir = "${at('keys')}"`],
        ['paths', `state_dir = "${at('state')}"\nrun_dir = "${at('run')}"`],
      ];
      writeFileSync(at('stickpin.toml'), lines.map(([section, rest]) => `[${section}]\n${rest}\n`).join(''));
      using notified = createDatagramReceiver();
      Object.assign(environment, { NOTIFY_SOCKET: notified.path, DBUS_SYSTEM_BUS_ADDRESS: `unix:path=${at('no')}` });
      let output = '';
      const run = () => {
        daemon = start(join(lib, 'dist/main.js'), '--config', at('stickpin.toml'));
        for (const stream of [daemon.stdout, daemon.stderr]) stream?.on('data', (chunk) => (output += String(chunk)));
      };
      const activated = () =>
        eventually(() => {
          const report: StatusReport = JSON.parse(readFileSync(at('run/status.json'), 'utf8'));
          expect(report, output).toMatchObject({ arch: 'arm64', bundles: [{ version: '4.13.7', phase: 'activated' }] });
        }, PATIENCE_MS);
      cpSync(bundle.path, join(at('incoming'), basename(bundle.path)), { recursive: true });
      run();
      // A library call of koffi.
      await eventually(() => expect(notified.received.map(String), output).toContain('READY=1'), PATIENCE_MS);
      await activated();
      if (daemon === undefined) expect.unreachable();
      await endProcess(daemon, 'SIGTERM');
      const before = readFileSync(at('run/status.json'), 'utf8');
      run();
      await eventually(() => expect(readFileSync(at('run/status.json'), 'utf8')).not.toBe(before), PATIENCE_MS);
      await activated();
    });
  },
);

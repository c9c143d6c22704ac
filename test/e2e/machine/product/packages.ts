import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { bundleProgram } from '../../../support/bundles/bundle-program.ts';
import { commandsOf } from '../../../support/docs/marked-blocks.ts';
import type { Machine } from '../machine.ts';
import { guestNodePath } from './guest-node.ts';

/** Packages on a machine, by the commands of documents: of docs/install.md where none is named. */
export interface MachinePackages {
  /** The folder in the guest where the commands run. */
  readonly folder: string;
  /** Copies a file of the host there, under the same name. */
  bring(path: string): Promise<void>;
  /** Runs a block of a page, which must succeed; returns its trimmed standard output. */
  run(name: string, page?: string): Promise<string>;
  /** Nothing of ours is on the machine but keys, settings and state, and the runtime starts. */
  expectNothingLeft(): Promise<void>;
  /**
   * The runtime pulls an image that it has never seen by its tag, from a registry of this machine.
   * Called after {@link expectNothingLeft}.
   */
  expectPull(): Promise<void>;
}

/** The runtime of a machine, by its unit. */
export type RuntimeUnit = keyof typeof SOCKETS;

const SOCKETS = {
  'containerd.service': '/run/containerd/containerd.sock',
  'crio.service': '/var/run/crio/crio.sock',
  'k3s.service': '/run/k3s/containerd/containerd.sock',
} as const;

const FOLDER = '/root/packages';
const PULLS = '/usr/local/lib/pulls.cjs';
const PORT = 5000;
/** CRI-O speaks TLS to a registry on loopback as well, unless it is told otherwise. */
const PLAIN_HTTP = `[[registry]]\nlocation = "127.0.0.1:${PORT}"\ninsecure = true\n`;
/** Everything of ours outside of /usr, but keys, settings and state. */
const OUTSIDE =
  "find /etc /run/crio /run/stickpin -name '*stickpin*' ! -path '/etc/stickpin*' ! -path '/etc/systemd/system/stickpin*.service.d*'";

/** The packages of a machine with one runtime. Call `machine` inside tests and hooks only. */
export function packagesOn(machine: () => Machine, runtime: RuntimeUnit): MachinePackages {
  return {
    folder: FOLDER,
    bring: async (path) => {
      const shared = await machine().share(path);
      await machine().output(`mkdir -p ${FOLDER} && cp ${shared} ${FOLDER}/${basename(path)}`);
    },
    run: (name, page = 'docs/install.md') => machine().output(`set -e; cd ${FOLDER}; ${commandsOf(page, name)}`),
    expectNothingLeft: async () => {
      expect((await machine().run(OUTSIDE)).stdout).toBe('');
      await machine().output('test ! -e /usr/lib/systemd/system/stickpin.service && test ! -e /usr/bin/stickpin');
      // CRI-O reads it as it starts.
      await machine().putFile('/etc/containers/registries.conf.d/50-test.conf', PLAIN_HTTP);
      await machine().output(`systemctl restart ${runtime}`);
      await machine().untilOutput('the runtime to be active', `systemctl is-active ${runtime}`);
    },
    expectPull: async () => {
      await bringPulls(machine());
      const command = `${guestNodePath} ${PULLS} --socket ${SOCKETS[runtime]} --proto-root /usr/lib/crio-double`;
      const answer = await machine().output(`${command} --port ${PORT}`);
      // containerd puts the algorithm before it.
      expect(answer).toMatch(/"imageRef":"(sha256:)?[0-9a-f]{64}"/);
    },
  };
}

/** Brings the program that has the runtime pull. */
async function bringPulls(machine: Machine): Promise<void> {
  const scratch = await mkdtemp(join(tmpdir(), 'stickpin-pulls-'));
  try {
    const program = join(scratch, 'pulls.cjs');
    await bundleProgram(fileURLToPath(new URL('../../../support/pulls/main.ts', import.meta.url)), program);
    await machine.output(`cp ${await machine.share(program)} ${PULLS}`);
  } finally {
    await rm(scratch, { recursive: true });
  }
}

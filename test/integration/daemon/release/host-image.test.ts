import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { parsePublicKey } from '../../../../src/bundle/keys/keys.ts';
import { sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage } from '../../../support/bundles/sample-image.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { have, program } from '../../../support/requirements.ts';

const shipped = (name: string) => readFileSync(new URL(`../../../../systemd/${name}`, import.meta.url), 'utf8');
const UNIT = 'stickpin-host-switch.service';
const INSTALLED = 'registry.example.com/installed:1';
/** As `bootc status` writes it; `spec` has what is booted next. */
const bootcStatus = (booted: string, next: string) => ({
  spec: { image: { image: next, transport: 'containers-storage' } },
  status: {
    staged: { image: { image: { image: next } } },
    booted: { image: { image: { image: booted }, imageDigest: 'sha256:0' }, incompatible: false },
  },
});
/** As `rpm-ostree status` writes it; the first one is booted next. */
const ostreeStatus = (booted: string, next: string) => ({
  deployments: [next, booted].map((image, index) => ({
    booted: index === 1,
    'container-image-reference': `ostree-unverified-image:containers-storage:${image}`,
  })),
});
const TOOLS = {
  bootc: { switch: 'bootc switch --transport containers-storage ', status: bootcStatus },
  'rpm-ostree': { switch: 'rpm-ostree rebase ostree-unverified-image:containers-storage:', status: ostreeStatus },
};

/** The units that come with stickpin, run with doubles of the tools that record their calls. */
class Host {
  private readonly calls: string;
  private boot = 1;
  private handled = 0;
  private booted = INSTALLED;
  private next = INSTALLED;
  /** Of the last run of a hook. */
  environment = '';
  /** The tools fail when they are asked for the status. */
  isMute = false;
  node: DaemonHarness | undefined;

  constructor(
    private readonly base: string,
    private readonly tool: keyof typeof TOOLS,
  ) {
    this.calls = join(base, 'calls');
    for (const name of ['bin', 'state']) mkdirSync(join(base, name));
    writeFileSync(this.calls, '');
    this.install('stickpin', `[ "$1" != list ] || exec cat ${base}/list`);
    for (const name of Object.keys(TOOLS)) {
      const status = `[ "$1" != status ] || exec cat ${base}/status`;
      this.install(name, name === tool ? status : 'exit 1');
    }
    const script = shipped('host-image')
      .replaceAll('/var/lib/stickpin-host', join(base, 'state'))
      .replaceAll('/proc/sys/kernel/random/boot_id', join(base, 'boot_id'));
    writeFileSync(join(base, 'bin/host-image'), script, { mode: 0o755 });
  }

  private install(name: string, more: string): void {
    const record = `case "$1" in status | list) ;; *) echo "${name} $*" >>${this.calls} ;; esac`;
    writeFileSync(join(this.base, 'bin', name), `#!/bin/sh\n${record}\n${more}\n`, { mode: 0o755 });
  }

  bootId(): string {
    return `boot-${this.boot}`;
  }

  lines(): readonly string[] {
    return readFileSync(this.calls, 'utf8').trim().split('\n').filter(Boolean);
  }

  boots(image: string): void {
    this.boot += 1;
    this.booted = this.next = image;
  }

  /** Boots `image`, and runs the unit that is enabled for each boot. */
  async reboot(image: string): Promise<void> {
    this.boots(image);
    await this.run('stickpin-host-booted.service', '');
  }

  /** @param environment of the hook */
  async run(unit: string, environment: string): Promise<void> {
    writeFileSync(join(this.base, 'boot_id'), `${this.bootId()}\n`);
    const status = TOOLS[this.tool].status(this.booted, this.next);
    writeFileSync(join(this.base, 'status'), this.isMute ? '' : JSON.stringify(status, null, 2));
    writeFileSync(join(this.base, 'list'), this.isMute ? '' : JSON.stringify(this.node?.report()));
    writeFileSync(join(this.base, 'env'), environment);
    const [, command = ''] = /^ExecStart=(.*)$/m.exec(shipped(unit)) ?? [];
    const line = command.replace('/usr/lib/stickpin', join(this.base, 'bin'));
    const env = { PATH: `${join(this.base, 'bin')}:${process.env.PATH}` };
    await promisify(execFile)('/bin/sh', ['-ec', `set -a; . ${this.base}/env; ${line}`], { env });
    const calls = this.lines().slice(this.handled);
    this.handled += calls.length;
    for (const call of calls) this.follow(call.split(' '));
  }

  /** Does what the command line of stickpin would, and what the tool is for. */
  private follow([program, verb, ...args]: readonly string[]): void {
    const last = args.at(-1) ?? '';
    if (program !== 'stickpin') this.next = last.replace('ostree-unverified-image:containers-storage:', '');
    else if (verb === 'rollback') this.node?.engine.commands.rollback({ stream: last });
    else this.node?.engine.commands.prove({ bundle: last, component: args[1] ?? '' });
  }
}

describe.runIf(have(program('jq', 'apt-get install jq')))('a release with a host image', () => {
  const base = folderForEach();
  const key = sampleKey('factory-2026');

  /** Both of the daemon, whose settings are those of docs/hooks.md. */
  async function start(tool: keyof typeof TOOLS) {
    const host = new Host(base, tool);
    const node = await createDaemonHarness({
      keys: [key],
      settings: {
        hooks: { activated: UNIT },
        streams: { ocp: { units: [UNIT], unit_keys: [parsePublicKey(key.publicPem, key.name).keyId] } },
        lifecycle: { soak: 0, require: ['os'] },
      },
      boot: () => ({ bootId: host.bootId(), uptimeMs: 1_000 }),
      hookRunner: {
        run: async (unit, environment) => {
          host.environment = environment;
          await host.run(unit, environment);
          return undefined;
        },
      },
    });
    host.node = node;
    await node.start();
    return { host, node };
  }
  const phases = (node: DaemonHarness) =>
    Object.fromEntries(node.report().bundles.map(({ version, phase }) => [version, phase]));

  /** Loads a release, and waits until its hook has run. @returns the reference of its host image */
  async function load(sequence: number, { host, node }: Awaited<ReturnType<typeof start>>): Promise<string> {
    const image = sampleImage({ seed: `os ${sequence}` });
    const images = [{ reference: `quay.example.com/ocp/os:${sequence}`, component: 'os', image }];
    const { path, contents } = await node.make({ version: `1.${sequence}.0`, sequence, images });
    const before = host.lines().length;
    node.plug(path);
    await node.until(() => host.lines().length > before);
    await node.takeOut();
    return contents.images[0]?.reference ?? '';
  }

  /** Its first release is booted and proven. */
  async function startProven() {
    const both = await start('bootc');
    const first = await load(1, both);
    await both.host.reboot(first);
    await both.node.until(({ bundles }) => bundles[0]?.phase === 'proven');
    return { both, first };
  }

  it.each(['bootc', 'rpm-ostree'] as const)(
    'is proven by the boot into it, and rolled back by one that came back (%s)',
    async (tool) => {
      const both = await start(tool);
      const { host, node } = both;
      const first = await load(1, both);
      expect(host.lines()).toEqual([`${TOOLS[tool].switch}${first}`]);
      // Before the boot nothing is reported, however often the unit is started.
      await host.run('stickpin-host-booted.service', '');
      await node.rounds();
      expect([host.lines().length, phases(node)]).toEqual([1, { '1.1.0': 'activated' }]);

      await host.reboot(first);
      await node.until(({ bundles }) => bundles[0]?.phase === 'proven');
      expect(host.lines().slice(1)).toEqual(['stickpin prove --component os ocp@1.1.0']);

      const second = await load(2, both);
      expect(host.lines().slice(2)).toEqual([`${TOOLS[tool].switch}${second}`]);
      await host.reboot(first);
      await node.until(() => host.lines().length === 6);
      expect(host.lines().slice(3)).toEqual([
        'stickpin rollback ocp',
        `${TOOLS[tool].switch}${first}`,
        'stickpin prove --component os ocp@1.1.0',
      ]);
      const { bundles } = await node.until((report) =>
        report.bundles.some(({ version, current, phase }) => version === '1.1.0' && current && phase === 'proven'),
      );
      const conditions = bundles.find(({ version }) => version === '1.2.0')?.conditions;
      expect(conditions).toContainEqual(expect.objectContaining({ type: 'Proven', reason: 'RolledBack' }));
    },
  );

  it('is judged by the boot when its hook is started once more after it', async () => {
    const { both, first } = await startProven();
    const { host } = both;
    await load(2, both);
    const before = host.lines().length;
    host.boots(first);
    await host.run(UNIT, host.environment);
    expect(host.lines()[before]).toBe('stickpin rollback ocp');
  });

  it('is not rolled back by its boot when a newer release took its place', async () => {
    const { both, first } = await startProven();
    const { host } = both;
    await load(2, both);
    const record = join(base, 'state/release');
    const written = readFileSync(record);
    await load(3, both);
    writeFileSync(record, written);
    const before = host.lines().length;
    await host.reboot(first);
    expect([host.lines().length, existsSync(record)]).toEqual([before, false]);
  });

  it.each(['bootc', 'rpm-ostree'] as const)('is not judged while %s does not say what is booted', async (tool) => {
    const both = await start(tool);
    const { host } = both;
    const first = await load(1, both);
    host.isMute = true;
    await expect(host.reboot(first)).rejects.toThrow();
    expect(host.lines()).toHaveLength(1);
    host.isMute = false;
    await host.run('stickpin-host-booted.service', '');
    expect(host.lines().at(-1)).toBe('stickpin prove --component os ocp@1.1.0');
  });
});

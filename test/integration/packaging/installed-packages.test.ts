import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import packageJson from '../../../package.json' with { type: 'json' };
import { installKeys, makeSampleBundle, sampleKey } from '../../support/bundles/sample-bundle.ts';
import { commandsOf } from '../../support/docs/marked-blocks.ts';
import { laterVersion, makePackage, packagingNeeds } from '../../support/packages/make-packages.ts';
import { have, withHelpers } from '../../support/requirements.ts';
import { makeScratchRoot, type ScratchRoot } from '../../support/rootfs/scratch-root.ts';

const GUARD = '/etc/systemd/system/crio.service.d/10-stickpin.conf';
const TMPFILES = '/etc/tmpfiles.d/stickpin-crio.conf';
const LINK = '/etc/crio/crio.conf.d/99-stickpin.conf';
const page = (name: string) => commandsOf('docs/install.md', name);

/** What a package leaves outside of /usr when nothing runs. */
const MADE = [
  GUARD,
  '/etc/systemd/system/multi-user.target.wants/stickpin-clear-mirrors.service',
  '/etc/systemd/system/multi-user.target.wants/stickpin.service',
  '/etc/systemd/system/sockets.target.wants/stickpin-registry.socket',
];

/** The version of an update. */
const NEWER = laterVersion(99);

/** What stays until a purge. */
const KEPT = ['/etc/stickpin', '/var/lib/stickpin', '/var/lib/stickpin-fleet'];

/**
 * Notes what it is asked to start and stop. Units are enabled and looked up by the true systemctl,
 * in the files; none runs. It reads no units while `/host/broken` is there.
 */
const SYSTEMCTL = `#!/bin/sh
case "$*" in
  *preset* | *is-enabled* | *disable*) SYSTEMD_OFFLINE=1 exec /usr/bin/systemctl --root=/ $(echo "$*" | sed 's/ --now//') ;;
  *is-active*) exit 3 ;;
  show*) echo inactive ;;
  daemon-reload) test ! -e /host/broken ;;
  *) echo "$*" >> /host/asked ;;
esac
`;

const needs = [...packagingNeeds, withHelpers('rpm', 'apt-get install rpm')];

/** Debian's dpkg and rpm on a Debian trixie on which nothing runs, as when an image is built. */
describe.runIf(have('root', 'mmdebstrap', ...needs))('a package without a running system', () => {
  let work: string;
  let deb: string;
  let rpm: string;
  let newer: string;
  let stick: string;
  let root: ScratchRoot;

  beforeAll(async () => {
    work = await mkdtemp(join(tmpdir(), 'stickpin-installed-'));
    deb = await makePackage('deb', work);
    rpm = await makePackage('rpm', work);
    newer = join(work, 'newer');
    for (const format of ['deb', 'rpm'] as const) await makePackage(format, newer, NEWER);
    const key = sampleKey();
    const bundle = await makeSampleBundle({ dir: join(work, 'stick'), keys: [key] });
    stick = bundle.path;
    installKeys(join(work, 'keys'), [key]);
  }, 600_000);
  afterAll(() => rm(work, { recursive: true, force: true }));
  beforeEach(async () => {
    root = await makeScratchRoot();
    for (const file of [deb, rpm]) await cp(file, join(root.shared, basename(file)));
    await cp(newer, join(root.shared, 'newer'), { recursive: true });
    await cp(stick, join(root.shared, 'bundle'), { recursive: true });
    await cp(join(work, 'keys'), join(root.shared, 'keys'), { recursive: true });
  }, 600_000);
  afterEach(() => root[Symbol.asyncDispose]());

  /** Everything with our name in it, outside of what dpkg itself notes. */
  const ours = async () =>
    (
      await root.run(
        `find /etc /usr /var/lib -name '*stickpin*' ! -path '/var/lib/dpkg/*' ! -path '/usr/lib/stickpin/*' ! -path '/etc/stickpin/*' | LC_ALL=C sort`,
      )
    )
      .split('\n')
      .filter((line) => line !== '');
  const outsideUsr = async () => (await ours()).filter((path) => !path.startsWith('/usr/'));

  /** `rpm` as the page shows it; Debian's knows nothing of the libraries that are there. */
  const rpmCommand = (block: string) =>
    root.runOutside(`rpm() { command rpm --root "$ROOT" --dbpath /var/lib/rpm --nodeps "$@"; }\n${block}`);

  async function bringArchive(): Promise<void> {
    const archive = await makePackage('archive', work);
    await cp(archive, join(root.shared, basename(archive)));
  }

  async function expectInstalled(): Promise<void> {
    expect(await root.run('stickpin --version')).toBe(`${packageJson.version}\n`);
    expect((await outsideUsr()).filter((path) => path !== '/etc/stickpin')).toEqual(MADE);
    await root.run('test -d /etc/stickpin/keys.d && test ! -e /etc/crio');
    await root.run('cd /usr/lib/stickpin && find . -type f | LC_ALL=C sort | cmp - manifest');
  }

  /** The installed daemon, with the runtime that it brings, loads and pins a bundle. */
  async function expectReady(): Promise<void> {
    const told = await root.run('stickpin bundle rehearse bundle --keys keys');
    expect(told).toMatch(/ loads, and all its images are pinned\.\n$/);
  }

  it('is a .deb: installed, updated, removed and purged as the page says', async () => {
    await root.run(page('deb-install'));
    await expectInstalled();
    await expectReady();
    await root.run(
      'echo key > /etc/stickpin/keys.d/mine.pub; mkdir -p /var/lib/stickpin /var/lib/stickpin-fleet; echo > /var/lib/stickpin/state.db',
    );
    // An administrator's decision outlives an update.
    await root.run('rm /etc/systemd/system/multi-user.target.wants/stickpin.service');
    await root.run('dpkg --install ./newer/*.deb && dpkg --verify stickpin');
    expect(await root.run("dpkg --status stickpin | sed -n 's/^Version: //p'")).toBe(`${NEWER}\n`);
    await expectReady();
    expect(await outsideUsr()).toEqual([...MADE.filter((path) => !path.endsWith('/stickpin.service')), ...KEPT].sort());
    await root.run(page('deb-remove'));
    expect(await ours()).toEqual(KEPT);
    await root.run('test -f /etc/stickpin/keys.d/mine.pub && test ! -e /usr/lib/stickpin');
    await root.run(page('deb-purge'));
    expect(await ours()).toEqual([]);
  }, 600_000);

  it('is a .deb over the archive of 0.1.0, whose files that are no longer used go', async () => {
    const old = {
      '/usr/lib/stickpin/dist/old-chunk.js': '',
      '/usr/lib/stickpin/node_modules/node-unix-socket/js/index.js': '',
      '/usr/lib/stickpin/stickpin.toml.d/50-vendor.toml': '',
      '/usr/lib/tmpfiles.d/stickpin-crio.conf': '# See tmpfiles.d(5).',
      [GUARD]: '# of 0.1.0',
      '/usr/bin/crio': '',
    };
    await root.run(
      'cd /etc/systemd/system; mkdir -p multi-user.target.wants sockets.target.wants; ln -s /usr/lib/systemd/system/stickpin.service multi-user.target.wants; ln -s /usr/lib/systemd/system/stickpin-registry.socket sockets.target.wants',
    );
    for (const [path, text] of Object.entries(old)) {
      await root.run(`mkdir -p $(dirname ${path}) && echo '${text}' > ${path}`);
    }
    await root.run(page('deb-install'));
    await root.run(`cd /usr/lib/stickpin && test -f stickpin.toml.d/50-vendor.toml && rm -r stickpin.toml.d
      find . -type f | LC_ALL=C sort | cmp - manifest && test ! -e node_modules/node-unix-socket`);
    expect(await outsideUsr()).toEqual([...MADE, '/etc/stickpin', TMPFILES].sort());
    expect(await root.run(`cat ${GUARD}`)).toContain('ExecStartPre=');
    expect(await ours()).not.toContain('/usr/lib/tmpfiles.d/stickpin-crio.conf');
  }, 600_000);

  it('is a .deb over an archive, whose units an administrator has disabled', async () => {
    await bringArchive();
    await root.run(page('archive-install'));
    await root.run(`rm ${MADE.filter((path) => path !== GUARD).join(' ')}`);
    await root.run(page('deb-install'));
    expect(await outsideUsr()).toEqual(['/etc/stickpin', GUARD].sort());
  }, 600_000);

  describe('while systemd runs', () => {
    const systemctl = async (command: string): Promise<string[]> => {
      await root.run(`rm -f asked; ${command}\ntouch /host/asked`);
      return (await root.run('cat /host/asked; rm /host/asked')).trim().split('\n');
    };
    beforeEach(async () => {
      await writeFile(join(root.shared, 'systemctl'), SYSTEMCTL, { mode: 0o755 });
      await root.run(`mkdir -p /run/systemd/system && mv systemctl /usr/local/bin
        for program in udevadm journalctl systemd-tmpfiles; do ln -s /bin/true /usr/local/bin/$program; done`);
    });
    const START = ['stop stickpin.service', 'start stickpin-registry.socket stickpin.service'];

    it('starts after an installation, also one after the removal of the .deb', async () => {
      expect(await systemctl('dpkg --install ./stickpin_*.deb')).toEqual(expect.arrayContaining(START));
      await root.run('dpkg --remove stickpin');
      expect(await outsideUsr()).toEqual(['/etc/stickpin']);
      expect(await systemctl('dpkg --install ./stickpin_*.deb')).toEqual(expect.arrayContaining(START));
      await expectInstalled();
    }, 600_000);

    it('leaves a service that is stopped alone at an update', async () => {
      await root.run('dpkg --install ./stickpin_*.deb');
      expect(await systemctl('dpkg --install ./stickpin_*.deb')).not.toContain(START[1]);
    }, 600_000);

    it('starts though udev does not run, as in a system container, and tells it', async () => {
      await root.run("printf '#!/bin/sh\\nexit 1\\n' > udevadm && chmod 755 udevadm && mv udevadm /usr/local/bin");
      expect(await systemctl('dpkg --install ./stickpin_*.deb 2> told')).toEqual(expect.arrayContaining(START));
      const told = (await root.run('grep ^setup: told')).trim().split('\n');
      expect(told).toEqual([
        expect.stringMatching(/^setup: 'udevadm control --reload' failed, and the installation goes on; run that/),
        expect.stringMatching(/^setup: 'udevadm trigger .*' failed/),
      ]);
    }, 600_000);

    const bringProgram = async (name: string, script: string) => {
      await writeFile(join(root.shared, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
      await root.run(`mv ${name} /usr/local/bin`);
    };

    it('loads its SELinux module before it starts, and removes it', async () => {
      for (const name of ['semodule', 'restorecon']) await bringProgram(name, `echo ${name} $* >> /host/asked`);
      const asked = await systemctl('dpkg --install ./stickpin_*.deb');
      const loaded = 'semodule --priority=200 --install=/usr/lib/stickpin/stickpin.cil';
      expect(asked.filter((line) => [loaded, 'restorecon -R /usr/lib/stickpin', ...START].includes(line))).toEqual([
        loaded,
        'restorecon -R /usr/lib/stickpin',
        ...START,
      ]);
      const removed = await systemctl(
        'mkdir -p /var/lib/stickpin-update; echo return > /var/lib/stickpin-update/step; dpkg --remove stickpin',
      );
      // An update that has not ended would put the program back.
      expect(removed[0]).toBe('stop stickpin-self-update-run.service');
      expect(removed.at(-1)).toBe('semodule --priority=200 --remove=stickpin');
      await root.run('test ! -e /var/lib/stickpin-update/step');
      await bringArchive();
      expect(await systemctl(`${page('archive-install').trimEnd()} --no-start`)).toContain(loaded);
    }, 600_000);

    it('starts though the loading of its SELinux module does not end, and reports it', async () => {
      await bringProgram('semodule', 'exec sleep 100');
      await bringProgram('restorecon', 'exit 1');
      await bringProgram('timeout', 'shift 2; exec /usr/bin/timeout 1 "$@"');
      expect(await systemctl('dpkg --install ./stickpin_*.deb 2> told')).toEqual(expect.arrayContaining(START));
      expect((await root.run('grep ^setup: told')).trim().split('\n')).toEqual([
        expect.stringMatching(/^setup: 'timeout .* semodule .*' failed, and the installation goes on; run that/),
        expect.stringMatching(/^setup: 'restorecon .*' failed/),
      ]);
    }, 600_000);

    it.each([
      ['dpkg --install ./stickpin_*.deb', 'dpkg --configure --pending'],
      [page('archive-install'), page('archive-install')],
    ])(
      'starts when an installation that broke off is made again (%#)',
      async (install, again) => {
        await bringArchive();
        expect(await systemctl(`touch broken; if (${install}); then exit 1; fi`)).not.toContain(START[1]);
        expect(await outsideUsr()).toContain(GUARD);
        expect(await systemctl(`rm broken; ${again}`)).toEqual(expect.arrayContaining(START));
        expect(await systemctl(again)).not.toContain(START[1]);
      },
      600_000,
    );

    it('is started by the archive, whose update leaves a service that is stopped alone', async () => {
      await bringArchive();
      expect(await systemctl(page('archive-install'))).toEqual(expect.arrayContaining(START));
      expect(await systemctl(page('archive-install'))).not.toContain(START[1]);
      await root.run('/usr/lib/stickpin/uninstall');
      expect(await systemctl(page('archive-install'))).toEqual(expect.arrayContaining(START));
    }, 600_000);

    it('is installed where its service is masked, and enables the other units', async () => {
      await root.run('ln -s /dev/null /etc/systemd/system/stickpin.service');
      expect(await systemctl('dpkg --install ./stickpin_*.deb')).not.toContain(START[1]);
      expect(await outsideUsr()).toEqual(
        expect.arrayContaining(MADE.filter((path) => !path.endsWith('/stickpin.service'))),
      );
    }, 600_000);
  });

  it('brings no container runtime along: k3s and RKE2 have their own', async () => {
    expect((await root.run('dpkg-deb --field ./stickpin_*.deb Recommends')).trim()).toBe('');
    expect(await root.runOutside('rpm --query --package --recommends --supplements ./stickpin-*.rpm')).toBe('');
  }, 600_000);

  it('notices CRI-O that is installed later, and takes its link away before the program', async () => {
    await root.run('dpkg --install ./stickpin_*.deb');
    await root.run(`mkdir -p crio/DEBIAN crio/usr/bin && echo > crio/usr/bin/crio
      printf 'Package: crio\\nVersion: 1\\nArchitecture: all\\nMaintainer: x <x@example.com>\\nDescription: x\\n' > crio/DEBIAN/control
      dpkg-deb --build crio crio.deb && dpkg --install crio.deb`);
    expect(await outsideUsr()).toContain(TMPFILES);
    await root.run(`mkdir -p $(dirname ${LINK}) && ln -s /run/crio/crio.conf.d/99-stickpin.conf ${LINK}`);
    await root.run('dpkg --remove stickpin');
    expect(await outsideUsr()).toEqual(['/etc/stickpin']);
  }, 600_000);

  it('says on the node which command removes it, and no archive replaces it', async () => {
    await bringArchive();
    await root.run('dpkg --install ./stickpin_*.deb');
    await expect(root.run('/usr/lib/stickpin/uninstall')).rejects.toThrow(/run 'apt-get remove stickpin'/);
    await expect(root.run(page('archive-install'))).rejects.toThrow(/stickpin is installed as a deb already/);
    await expectInstalled();
  }, 600_000);

  it('is an .rpm: installed, updated, removed and purged as the page says', async () => {
    await rpmCommand(page('rpm-install'));
    await expectInstalled();
    expect(await rpmCommand('rpm --verify stickpin')).toBe('');
    await expectReady();
    await root.run('echo key > /etc/stickpin/keys.d/mine.pub; mkdir -p /usr/bin && echo > /usr/bin/crio');
    await root.run('mkdir -p /var/lib/stickpin /var/lib/stickpin-fleet');
    await rpmCommand(`rpm --upgrade ./newer/*.rpm`);
    const query = 'rpm --root "$ROOT" --dbpath /var/lib/rpm --query stickpin';
    expect(await root.runOutside(query)).toMatch(`stickpin-${NEWER}-1.`);
    await expectReady();
    expect(await outsideUsr()).toEqual([...MADE, ...KEPT, TMPFILES].sort());
    await expect(root.run('/usr/lib/stickpin/uninstall')).rejects.toThrow(
      /run 'rpm --erase stickpin'; then 'rm -rf .*\/var\/lib\/stickpin-fleet'/,
    );
    await rpmCommand(page('rpm-remove'));
    expect(await ours()).toEqual(KEPT);
    await rpmCommand(page('rpm-install'));
    expect(await outsideUsr()).toEqual([...MADE, ...KEPT, TMPFILES].sort());
    await rpmCommand(page('rpm-remove'));
    await root.run(page('rpm-purge'));
    expect(await ours()).toEqual([]);
  }, 600_000);

  it.each([
    ['where rpm runs the scripts of packages', 'rpm --install'],
    ['where rpm can not run them', 'rpm --install --noscripts'],
  ])(
    'makes the layer of the Containerfile with its own commands, %s',
    async (_where, install) => {
      const file = await readFile('packaging/image/Containerfile', 'utf8');
      const [layer = '', setup = ''] = [...file.matchAll(/^RUN (.*)$/gm)].map(([, command]) => command ?? '');
      await root.runOutside('mkdir -p "$ROOT/tmp/stickpin" && cp ./*.rpm "$ROOT/tmp/stickpin"');
      await rpmCommand(layer.replaceAll('/tmp/stickpin', '$ROOT/tmp/stickpin').replace('rpm --install', install));
      await root.run('test ! -e /tmp/stickpin');
      await root.run(setup);
      await expectInstalled();
    },
    600_000,
  );
});

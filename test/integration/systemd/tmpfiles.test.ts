import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { have, program } from '../../support/requirements.ts';

/** The boot's own lines, on a root of its own: what is there if the daemon never runs. */
describe.runIf(have('root', program('systemd-tmpfiles', 'apt-get install systemd')))('tmpfiles at boot', () => {
  const root = folderForEach();
  beforeEach(() => {
    mkdirSync(join(root, 'etc'));
    for (const name of ['passwd', 'group']) writeFileSync(join(root, 'etc', name), 'root:x:0:0::/root:/bin/sh\n');
  });
  const create = () => {
    const lines = new URL('../../../systemd/stickpin.tmpfiles.conf', import.meta.url).pathname;
    execFileSync('systemd-tmpfiles', [`--root=${root}`, '--create', lines], { stdio: 'pipe' });
  };
  const boot = () => {
    rmSync(join(root, 'run'), { recursive: true, force: true });
    create();
  };

  it.each([
    { name: 'images.env', text: 'STICKPIN_ETCD=quay.io/coreos/etcd@sha256:0\n' },
    { name: 'status.json', text: '{"status":"IDLE:","bootId":"the one before"}\n' },
  ])('copies $name to /run as the daemon left it, and does nothing while there is none', ({ name, text }) => {
    boot();
    expect(() => readFileSync(join(root, 'run/stickpin', name))).toThrow(/ENOENT/);
    writeFileSync(join(root, 'var/lib/stickpin', name), text);
    boot();
    expect(readFileSync(join(root, 'run/stickpin', name), 'utf8')).toBe(text);
  });

  it('has login prompts read what the daemon writes for them, and makes what it touches', () => {
    boot();
    const link = join(root, 'run/issue.d/stickpin.issue');
    expect(() => readFileSync(link)).toThrow(/ENOENT/);
    writeFileSync(join(root, 'run/stickpin/stickpin.issue'), 'IDLE\n');
    expect(readFileSync(link, 'utf8')).toBe('IDLE\n');
    expect(statSync(join(root, 'run/agetty.reload')).mode & 0o777).toBe(0o600);
  });

  it('gives only root access to the folder of the mounts, also after an earlier version made it accessible', () => {
    const media = join(root, 'run/stickpin/media');
    mkdirSync(media, { recursive: true, mode: 0o755 });
    create();
    expect(statSync(media).mode & 0o777).toBe(0o700);
  });
});

import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { have, program } from '../../support/requirements.ts';

/**
 * systemd judges the conditions before it looks for the service, whose mask would make the socket
 * fail.
 */
describe.runIf(have(program('systemd-analyze', 'apt-get install systemd')))('the socket of the registry', () => {
  const root = folderForEach();
  beforeEach(() => {
    for (const folder of ['etc/systemd/system', 'run/systemd/system'])
      mkdirSync(join(root, folder), { recursive: true });
  });

  const ETC = 'etc/systemd/system/stickpin.service';
  /** Whether systemd would start it, with the paths of its conditions below the test's root. */
  const starts = (): boolean => {
    const text = readFileSync(new URL('../../../systemd/stickpin-registry.socket', import.meta.url), 'utf8');
    const conditions = text.match(/^Condition.*$/gm) ?? [];
    if (conditions.length === 0) return true;
    const below = conditions.map((line) => line.replace(/(?<=[=!|])\/(?=etc|run)/, `${root}/`));
    return spawnSync('systemd-analyze', ['condition', ...below]).status === 0;
  };

  it('is opened while the service unit exists, changed or not', () => {
    expect(starts()).toBe(true);
    writeFileSync(join(root, 'other.service'), '[Service]\n');
    symlinkSync(join(root, 'other.service'), join(root, ETC));
    expect(starts()).toBe(true);
    rmSync(join(root, ETC));
    writeFileSync(join(root, ETC), '[Service]\n');
    expect(starts()).toBe(true);
  });

  it.each([ETC, 'run/systemd/system/stickpin.service'])(
    'is not opened at boot when the service is masked (%s)',
    (path) => {
      symlinkSync('/dev/null', join(root, path));
      expect(starts()).toBe(false);
    },
  );
});

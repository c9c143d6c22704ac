import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { readConfiguredRegistry } from '../../../src/runtime/containerd/containerd-config.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { have } from '../../support/requirements.ts';
import { containerdTwoPrograms } from '../../support/rootfs/containerd-two.ts';

/** Each import that is read sets the path to its own name; the last one wins. */
describe.runIf(have('root', 'mmdebstrap'))('what the imports of containerd 2 are', { timeout: 120_000 }, () => {
  let programs: string;
  const base = folderForEach();
  beforeAll(async () => {
    programs = await containerdTwoPrograms();
  }, 600_000);

  const setting = (path: string) =>
    `version = 3\n[plugins."io.containerd.cri.v1.images".registry]\nconfig_path = "${path}"\n`;
  const FILES = [
    'conf.d/10-a.toml',
    'conf.d/90-b.toml',
    'conf.d/9x-c.toml',
    'conf.d/.hidden.toml',
    'conf.d/x[1].toml',
    'more/one/z.toml',
    'more/two/y.toml',
    'conf?.toml',
  ];

  it.each([
    ['conf.d/[0-9]*'],
    ['conf.d/[0-8]*.toml'],
    ['conf.d/[^9]*.toml'],
    ['conf.d/9?-*'],
    ['conf.d/9*'],
    ['*/10-a.toml'],
    ['more/*/z.toml'],
    ['more/*/*.toml'],
    ['conf?.toml'],
    ['conf.d/?0-a.toml'],
    ['conf.d/.*'],
    ['conf.d/*hidden.toml'],
    ['conf.d/*'],
    ['none/*/x.toml'],
    ['./conf.d/../conf.d/10-*'],
  ])('%s: as `containerd config dump` shows it', async (pattern) => {
    for (const name of FILES) {
      mkdirSync(dirname(join(base, name)), { recursive: true });
      writeFileSync(join(base, name), setting(`/from/${name}`));
    }
    const main = join(base, 'config.toml');
    const [head, ...rest] = setting('/main').split('\n');
    writeFileSync(main, [head, `imports = ["${pattern}"]`, ...rest].join('\n'));
    const dump = execFileSync(join(programs, 'containerd'), ['--config', main, 'config', 'dump'], { encoding: 'utf8' });
    const [, expected] = /^\s*config_path = ['"]([^'"]*)['"]/m.exec(dump) ?? [];
    const read = await readConfiguredRegistry(main, new AbortController().signal);
    expect(read).toMatchObject({ kind: 'read', configPath: expected });
  });
});

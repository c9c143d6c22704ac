import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const script = new URL('../../../../docs/examples/restart-containers', import.meta.url).pathname;

interface Container {
  readonly image: string;
  /** The id of the image that it runs from. */
  readonly runs: string;
  readonly labels?: Readonly<Record<string, string>>;
}

describe('the example that restarts containers from older images', () => {
  const root = folderForEach();

  beforeEach(() => {
    writeFileSync(join(root, 'calls'), '');
    writeFileSync(
      join(root, 'systemctl'),
      `#!/bin/sh\necho "systemctl $*" >>${root}/calls\n[ "$2" != bad.service ]\n`,
      {
        mode: 0o755,
      },
    );
  });

  /** @param images the id that each name means now */
  function run(containers: Readonly<Record<string, Container>>, images: Readonly<Record<string, string>>) {
    const answers = Object.entries(containers).flatMap(([id, { image, runs, labels = {} }]) => [
      `'inspect --format {{.Config.Image}} ${id}') echo ${image} ;;`,
      `'inspect --format {{.Image}} ${id}') echo ${runs} ;;`,
      ...Object.entries(labels).map(
        ([name, value]) => `'inspect --format {{index .Config.Labels "${name}"}} ${id}') echo ${value} ;;`,
      ),
      `'inspect --format {{index '*' ${id}') echo ;;`,
    ]);
    const known = Object.entries(images).map(([name, id]) => `'image inspect --format {{.Id}} ${name}') echo ${id} ;;`);
    const body = ["'ps --quiet') echo", `${Object.keys(containers).join(' ')} ;;`].join(' ');
    const compose = `compose\\ *) echo "compose $* ($COMPOSE_FILE)" >>${root}/calls ;;`;
    writeFileSync(
      join(root, 'engine'),
      `#!/bin/sh\ncase "$*" in\n${[body, ...answers, ...known, compose].join('\n')}\n*) exit 1 ;;\nesac\n`,
      { mode: 0o755 },
    );
    const env = { PATH: `${root}:${process.env.PATH}`, ENGINE: 'engine' };
    const { status, stderr } = spawnSync('/bin/sh', [script], { env, encoding: 'utf8' });
    const calls = readFileSync(join(root, 'calls'), 'utf8').trim().split('\n').filter(Boolean);
    return { status, stderr, calls };
  }
  const unit = (name: string) => ({ PODMAN_SYSTEMD_UNIT: name });

  it('restarts the unit of one whose tag names a newer image, and no other', () => {
    const containers = {
      a1: { image: 'quay.io/x/web:1', runs: 'old', labels: unit('web.service') },
      b2: { image: 'quay.io/x/db:1', runs: 'same', labels: unit('db.service') },
      c3: { image: 'quay.io/x/gone:1', runs: 'x', labels: unit('gone.service') },
    };
    const found = run(containers, { 'quay.io/x/web:1': 'new', 'quay.io/x/db:1': 'same' });
    expect(found).toEqual({ status: 0, stderr: '', calls: ['systemctl restart web.service'] });
  });

  it('has Compose make its container again, with its files, and without a registry', () => {
    const labels = {
      'com.docker.compose.project': 'shop',
      'com.docker.compose.service': 'web',
      'com.docker.compose.project.config_files': '/srv/compose.yaml,/srv/more.yaml',
    };
    const { calls } = run({ a1: { image: 'web:1', runs: 'old', labels } }, { 'web:1': 'new' });
    expect(calls).toEqual([
      'compose compose --project-name shop up --detach --no-deps --pull never web (/srv/compose.yaml,/srv/more.yaml)',
    ]);
  });

  it('names one that a person started, goes on after a failure, and reports it', () => {
    const containers = {
      a1: { image: 'web:1', runs: 'old' },
      b2: { image: 'web:1', runs: 'old', labels: unit('bad.service') },
      c3: { image: 'web:1', runs: 'old', labels: unit('good.service') },
    };
    const { status, stderr, calls } = run(containers, { 'web:1': 'new' });
    expect([status, calls]).toEqual([1, ['systemctl restart bad.service', 'systemctl restart good.service']]);
    expect(stderr).toBe('Container a1 was started by hand, and stays as it is\n');
  });
});

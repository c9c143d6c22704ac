import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { have, program } from '../../support/requirements.ts';

const MODULE = new URL('../../../packaging/node/stickpin.cil', import.meta.url).pathname;
const SPEC = readFileSync(new URL('../../../packaging/rpm/stickpin.spec', import.meta.url), 'utf8');

/** The least that a policy has. */
const BASE = `(handleunknown allow) (mls true)
(class process (execmem))
(class dir (getattr search read open write add_name remove_name))
(class lnk_file (getattr read create unlink rename))
(classorder (process dir lnk_file))
(sid kernel) (sidorder (kernel))
(sensitivity s0) (sensitivityorder (s0)) (category c0) (categoryorder (c0)) (sensitivitycategory s0 (c0))
(user system_u) (role system_r) (role object_r) (type kernel_t)
(roletype system_r kernel_t) (userrole system_u system_r) (userrole system_u object_r)
(userlevel system_u (s0)) (userrange system_u ((s0) (s0 (c0))))
(sidcontext kernel (system_u system_r kernel_t ((s0) (s0))))
(allow kernel_t kernel_t (process (execmem)))
`;
const FILES = '(type bin_t) (type var_lib_t) (roletype object_r bin_t) (roletype object_r var_lib_t)\n';
const DOMAINS = '(type initrc_t) (type systemd_tmpfiles_t) (type container_config_t)\n';
const FORBIDDEN = {
  stickpin_compiles: '(neverallow initrc_t initrc_t (process (execmem)))',
  stickpin_link: '(neverallow systemd_tmpfiles_t container_config_t (lnk_file (read)))',
};

describe.runIf(have(program('secilc', 'apt-get install secilc')))('the SELinux module', () => {
  const folder = folderForEach();

  /** Compiles a policy with the module. @returns the output of the compiler, and the labels */
  function compile(policy: string) {
    const [base, contexts] = [join(folder, 'base.cil'), join(folder, 'contexts')];
    writeFileSync(base, policy);
    const argv = ['-o', join(folder, 'policy'), '-f', contexts, base, MODULE];
    const { status, stderr } = spawnSync('secilc', argv, { encoding: 'utf8' });
    return { status, stderr, contexts: status === 0 ? readFileSync(contexts, 'utf8').trim().split('\n').sort() : [] };
  }

  it('labels programs and the state, where the policy has the labels', () => {
    expect(compile(BASE + FILES)).toMatchObject({
      status: 0,
      stderr: '',
      contexts: [
        expect.stringMatching(/^\/usr\/lib\/stickpin\/\(host-image\|.*\t--\tsystem_u:object_r:bin_t:s0$/),
        expect.stringMatching(/^\/usr\/lib\/stickpin\/\(setup\|.*\t--\tsystem_u:object_r:bin_t:s0$/),
        '/usr/lib/stickpin/bin/node\t--\tsystem_u:object_r:bin_t:s0',
        '/var/lib/stickpin(/.*)?\tsystem_u:object_r:var_lib_t:s0',
      ],
    });
  });

  it('can be loaded into a policy that has nothing of what it names', () => {
    expect(compile(BASE)).toMatchObject({ status: 0, stderr: '', contexts: [''] });
  });

  it.each(Object.entries(FORBIDDEN))('has the rule %s where the policy has its domains', (_, forbidden) => {
    expect(compile(BASE + DOMAINS).status).toBe(0);
    expect(compile(BASE + DOMAINS + forbidden).status).not.toBe(0);
  });
});

describe('the scripts of the .rpm', () => {
  const folder = folderForEach();
  const calls = () => readFileSync(join(folder, 'calls'), 'utf8').trim().split('\n');

  beforeEach(() => {
    mkdirSync(join(folder, 'bin'));
    writeFileSync(join(folder, 'calls'), '');
    double('setup');
  });
  const double = (name: string, exitCode = 0) => {
    const line = `#!/bin/sh\necho "${name} $*" >>${folder}/calls\necho noise\necho noise >&2\nexit ${exitCode}\n`;
    writeFileSync(join(folder, 'bin', name), line, { mode: 0o755 });
  };
  /** As rpm does: with sh, and how many versions of the package will be there as $1. Limits are shorter. */
  function run(section: string, left: number) {
    const [, script = ''] = new RegExp(`^%${section}\\n([^%]*)`, 'm').exec(SPEC) ?? [];
    const own = script
      .replaceAll('/usr/lib/stickpin/setup', 'setup')
      .replace('[ -d /run/systemd/system ]', 'false')
      .replaceAll(' 300 ', ' 0.2 ');
    const env = { PATH: `${join(folder, 'bin')}:/usr/bin:/bin` };
    return spawnSync('/bin/sh', ['-c', own, 'sh', String(left)], { env, encoding: 'utf8' });
  }
  const SETUP = 'setup --first auto --start auto';
  const INSTALL = 'semodule --priority=200 --install=/usr/lib/stickpin/stickpin.cil';

  it('load the module, label what is there, and go on', () => {
    for (const name of ['semodule', 'restorecon']) double(name);
    expect(run('post', 1).status).toBe(0);
    expect(calls()).toEqual([INSTALL, 'restorecon -R /usr/lib/stickpin', SETUP]);
  });

  it('go on with a line when the module can not be loaded, and without SELinux', () => {
    double('semodule', 1);
    expect(run('post', 1)).toMatchObject({
      status: 0,
      stderr: 'stickpin: its SELinux module was not loaded, and the installation goes on\nnoise\n',
    });
    expect(calls()).toEqual([INSTALL, SETUP]);
    expect(run('postun', 0).status).toBe(0);
  });

  it('go on with a line when loading the module does not end', () => {
    writeFileSync(join(folder, 'bin/semodule'), '#!/bin/sh\nexec sleep 20\n', { mode: 0o755 });
    expect(run('post', 1)).toMatchObject({
      status: 0,
      stderr: 'stickpin: its SELinux module was not loaded, and the installation goes on\nnoise\n',
    });
    expect(calls()).toEqual([SETUP]);
    expect(run('postun', 0).status).toBe(0);
  }, 15_000);

  it('remove the module with the last version only', () => {
    double('semodule');
    expect([run('postun', 1).status, calls()]).toEqual([0, ['']]);
    expect([run('postun', 0).status, calls()]).toEqual([0, ['semodule --priority=200 --remove=stickpin']]);
  });
});

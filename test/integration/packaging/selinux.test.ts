import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { have, program } from '../../support/requirements.ts';

const MODULE = new URL('../../../packaging/node/stickpin.cil', import.meta.url).pathname;

/** The least that a policy has. */
const BASE = `(handleunknown allow) (mls true)
(class process (execmem))
(class dir (getattr search read open write add_name remove_name))
(class lnk_file (getattr read create unlink rename))
(class dbus (send_msg))
(class unix_stream_socket (getattr ioctl))
(classorder (process dir lnk_file dbus unix_stream_socket))
(sid kernel) (sidorder (kernel))
(sensitivity s0) (sensitivityorder (s0)) (category c0) (categoryorder (c0)) (sensitivitycategory s0 (c0))
(user system_u) (role system_r) (role object_r) (type kernel_t)
(roletype system_r kernel_t) (userrole system_u system_r) (userrole system_u object_r)
(userlevel system_u (s0)) (userrange system_u ((s0) (s0 (c0))))
(sidcontext kernel (system_u system_r kernel_t ((s0) (s0))))
(allow kernel_t kernel_t (process (execmem)))
`;
const FILES = '(type bin_t) (type var_lib_t) (roletype object_r bin_t) (roletype object_r var_lib_t)\n';
const DOMAINS = ['initrc_t', 'unconfined_t', 'ntpd_t', 'udev_t', 'systemd_tmpfiles_t', 'container_config_t']
  .map((type) => `(type ${type})\n`)
  .join('');
const FORBIDDEN = {
  stickpin_compiles: '(neverallow initrc_t initrc_t (process (execmem)))',
  stickpin_answers: '(neverallow initrc_t unconfined_t (dbus (send_msg)))',
  stickpin_clock: '(neverallow ntpd_t initrc_t (dbus (send_msg)))',
  stickpin_udev: '(neverallow udev_t initrc_t (unix_stream_socket (ioctl)))',
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

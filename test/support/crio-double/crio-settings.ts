import { join } from 'node:path';
import type { Settings } from '../../../src/domain/settings/settings.ts';
import type { CrioDouble } from './start-crio-double.ts';

/** The settings with which a daemon finds the double and all files of its configuration. */
export function crioSettings({ dirs, socketPath }: CrioDouble) {
  return {
    runtime: { kind: 'cri-o', socket: socketPath },
    crio: {
      config_file: join(dirs.crioConfig, 'crio.conf'),
      config_dir: dirs.crioDropIns,
      pins_file: join(dirs.base, 'run/crio/crio.conf.d/99-stickpin.conf'),
      registries_conf: dirs.registriesFile,
      registries_dir: dirs.registriesDropIns,
      registries_d: dirs.registriesD,
      signature_policy: dirs.policyFile,
    },
  } as const satisfies { readonly [Section in keyof Settings]?: Partial<Settings[Section]> };
}

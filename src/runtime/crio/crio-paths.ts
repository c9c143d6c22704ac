import { join } from 'node:path';
import { defaultSettings, type Settings } from '../../domain/settings/settings.ts';
import type { SignatureLookupPaths } from './signature-lookup.ts';

/** All paths that the CRI-O adapter reads or writes. */
export interface CrioPaths extends SignatureLookupPaths {
  readonly configPath: string;
  readonly configDirectory: string;
  /** Our link in CRI-O's drop-in directory. tmpfiles.d makes it. */
  readonly pinsLink: string;
  /** The target of the link: the pins that CRI-O reads. */
  readonly pinsFile: string;
  /** The copy that survives a reboot. The guard of crio.service copies it to `pinsFile`. */
  readonly persistentPinsFile: string;
  readonly registriesPath: string;
  readonly registriesDirectory: string;
  /** Our link in the registries drop-in directory. tmpfiles.d makes it. */
  readonly mirrorsLink: string;
  readonly mirrorsFile: string;
  /** The copy that survives a reboot. It is copied to `mirrorsFile` before CRI-O starts. */
  readonly persistentMirrorsFile: string;
  /** There while CRI-O owes a reload. It must not survive a reboot. */
  readonly reloadMarker: string;
}

/** The paths from the settings. */
export function crioPathsOf({ crio, paths }: Pick<Settings, 'crio' | 'paths'>): CrioPaths {
  return {
    configPath: crio.config_file,
    configDirectory: crio.config_dir,
    pinsLink: join(crio.config_dir, '99-stickpin.conf'),
    pinsFile: crio.pins_file,
    persistentPinsFile: join(paths.state_dir, 'crio/99-stickpin.conf'),
    registriesPath: crio.registries_conf,
    registriesDirectory: crio.registries_dir,
    mirrorsLink: join(crio.registries_dir, '99-stickpin.conf'),
    mirrorsFile: join(paths.run_dir, 'registries.conf'),
    persistentMirrorsFile: join(paths.state_dir, 'crio/registries.conf'),
    reloadMarker: join(paths.run_dir, 'crio-reload-owed'),
    policyPath: crio.signature_policy,
    signatureLookupFile: join(crio.registries_d, '99-stickpin.yaml'),
  };
}

/** The default paths. */
export const CRIO_PATHS: CrioPaths = crioPathsOf(defaultSettings);

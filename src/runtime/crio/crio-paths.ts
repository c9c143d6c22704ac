import type { SignatureLookupPaths } from './signature-lookup.ts';

/** Every path that the CRI-O adapter reads or writes. */
export interface CrioPaths extends SignatureLookupPaths {
  readonly configPath: string;
  readonly configDirectory: string;
  /** Our link in CRI-O's drop-in directory; tmpfiles.d makes it. */
  readonly pinsLink: string;
  /** What the link points to: the pins that CRI-O reads. */
  readonly pinsFile: string;
  /** The copy that outlives a reboot; the guard of crio.service copies it to `pinsFile`. */
  readonly persistentPinsFile: string;
  readonly registriesPath: string;
  readonly registriesDirectory: string;
  /** Our link in the registries drop-in directory; tmpfiles.d makes it. */
  readonly mirrorsLink: string;
  readonly mirrorsFile: string;
}

/** Where they are on a node. */
export const CRIO_PATHS: CrioPaths = {
  configPath: '/etc/crio/crio.conf',
  configDirectory: '/etc/crio/crio.conf.d',
  pinsLink: '/etc/crio/crio.conf.d/99-stickpin.conf',
  pinsFile: '/run/crio/crio.conf.d/99-stickpin.conf',
  persistentPinsFile: '/var/lib/stickpin/crio/99-stickpin.conf',
  registriesPath: '/etc/containers/registries.conf',
  registriesDirectory: '/etc/containers/registries.conf.d',
  mirrorsLink: '/etc/containers/registries.conf.d/99-stickpin.conf',
  mirrorsFile: '/run/stickpin/registries.conf',
  policyPath: '/etc/containers/policy.json',
  signatureLookupFile: '/etc/containers/registries.d/99-stickpin.yaml',
};

import type { Section } from '../section.ts';
import { absolutePath, runtimeUnit } from '../value-types.ts';

/** The settings of section `crio`. */
export const crioSection = {
  about: "Where CRI-O's files are. Only a node with an unusual CRI-O needs these settings.",
  settings: {
    unit: { type: runtimeUnit, default: 'crio.service', about: 'The systemd unit of CRI-O.' },
    config_file: {
      type: absolutePath,
      default: '/etc/crio/crio.conf',
      about: 'The main configuration file of CRI-O.',
    },
    config_dir: {
      type: absolutePath,
      default: '/etc/crio/crio.conf.d',
      about:
        'The drop-in folder of CRI-O. `stickpin.service` must be allowed to write to another one (`ReadWritePaths=`).',
    },
    pins_file: {
      type: absolutePath,
      default: '/run/crio/crio.conf.d/99-stickpin.conf',
      about:
        'The file into which stickpin writes the pins. A link in `crio.config_dir` leads to it. Another one in `/run` comes back after a reboot only with the daemon.',
    },
    registries_conf: {
      type: absolutePath,
      default: '/etc/containers/registries.conf',
      about: 'The main file of containers-registries.conf(5).',
    },
    registries_dir: {
      type: absolutePath,
      default: '/etc/containers/registries.conf.d',
      about: 'The drop-in folder of containers-registries.conf(5).',
    },
    registries_d: {
      type: absolutePath,
      default: '/etc/containers/registries.d',
      about: 'The folder of containers-registries.d(5), which says where signatures of images are.',
    },
    signature_policy: {
      type: absolutePath,
      default: '/etc/containers/policy.json',
      about: 'The file of containers-policy.json(5).',
    },
  },
} satisfies Section;

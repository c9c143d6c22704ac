import { RUNTIME_NAMES } from '../model/runtimes.ts';
import { loopbackAddress } from './addresses.ts';
import { runtimeUnit } from './hook-units.ts';
import type { Section } from './sections.ts';
import { absolutePath, absolutePaths, flag, oneOf, textfilePath, userIds, wholeNumber } from './value-types.ts';

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
        'The drop-in folder of CRI-O. If you change it, allow `stickpin.service` to write to it (`ReadWritePaths=`).',
    },
    pins_file: {
      type: absolutePath,
      default: '/run/crio/crio.conf.d/99-stickpin.conf',
      about:
        'The file into which stickpin writes the pins. A link in `crio.config_dir` points to it. With another path in `/run`, the pins come back after a reboot only when the daemon starts.',
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

export const consoleSection = {
  about: 'What a person without a login sees, see [console.md](console.md).',
  settings: {
    issue: {
      type: flag,
      default: true,
      about: 'Whether login prompts show above themselves what a person has to do.',
    },
    vt: {
      // Logins may start on those below 7, and up to 15 the kernel says who has one.
      type: wholeNumber(7, 15),
      default: undefined,
      about:
        'The virtual terminal on which `stickpin-console.service` shows what a person has to do. The screen changes to it while a stick is plugged in. When not set: none.',
    },
  },
} satisfies Section;

export const metricsSection = {
  about: 'Metrics for a monitoring system, see [metrics.md](metrics.md).',
  settings: {
    textfile: {
      type: textfilePath,
      default: undefined,
      about:
        'File for the textfile collector of node_exporter, as `"/var/lib/prometheus/node-exporter/stickpin.prom"`. When not set: no metrics are written.',
    },
  },
} satisfies Section;

export const pathsSection = {
  about: 'Where stickpin keeps its own files.',
  settings: {
    state_dir: {
      type: absolutePath,
      default: '/var/lib/stickpin',
      about: 'Folder of files that are kept over a reboot.',
    },
    run_dir: { type: absolutePath, default: '/run/stickpin', about: 'Folder of files that are gone after a reboot.' },
  },
} satisfies Section;

export const registrySection = {
  about: "The registry from which the container runtime pulls. It serves only what a node's bundles carry.",
  settings: {
    listen: {
      type: loopbackAddress,
      default: '127.0.0.1:5317',
      about:
        'Where the registry listens when systemd does not give it a socket. With `stickpin-registry.socket`, change the unit instead.',
    },
    allow_uids: {
      type: userIds,
      default: [0],
      about: "Users whose processes may pull. The daemon's own user always may.",
    },
  },
} satisfies Section;

export const runtimeSection = {
  about: 'The container runtime.',
  settings: {
    kind: {
      type: oneOf(['auto', ...RUNTIME_NAMES, 'embedded']),
      default: 'auto',
      about:
        'The container runtime that pulls the images. `auto` finds CRI-O or containerd; if both answer, it takes the one that is in use already, else CRI-O. Docker comes before a plain containerd where cri-dockerd runs or there is no kubelet, and Podman last where there is none; otherwise these two must be named here. `embedded` keeps the images in a folder and runs nothing.',
    },
    socket: {
      type: absolutePath,
      default: undefined,
      about: 'Socket of the runtime (CRI, or the API of Docker). When not set: the usual socket of the runtime.',
    },
    certs_dir: {
      type: absolutePath,
      default: undefined,
      about: "containerd's `certs.d` folder. When not set: the folder that containerd's configuration names.",
    },
    static_pods: {
      type: absolutePaths,
      default: undefined,
      about:
        "Folders with the manifests of static pods. When not set: the `staticPodPath` of the kubelet's configuration, and the usual folders of kubeadm, k3s and RKE2.",
    },
  },
} satisfies Section;

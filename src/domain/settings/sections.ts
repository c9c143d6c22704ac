import { defaultFilesystems } from '../model/medium.ts';
import {
  absolutePath,
  absolutePathOrAuto,
  absolutePaths,
  bundleDigests,
  dataRate,
  duration,
  durationOrKeep,
  filesystems,
  flag,
  fraction,
  listenAddress,
  loopbackAddress,
  oneOf,
  peerAddresses,
  percentUpTo,
  releases,
  repositories,
  runtimeUnit,
  serviceUnit,
  streamNames,
  textfilePath,
  texts,
  timeZone,
  userIds,
  type ValueType,
  version,
  weeklyWindows,
  wholeNumber,
  wholeNumberOrAuto,
} from './value-types.ts';

/** One key of a section. */
export interface Setting {
  readonly type: ValueType<unknown>;
  /** As it is written in a file; undefined where a key that is not set has a meaning of its own. */
  readonly default: unknown;
  /** What it does, for the reference: whole sentences in Markdown. */
  readonly about: string;
}

/** One section of a settings file. */
export interface Section {
  /** What its keys are about, for the reference. */
  readonly about: string;
  readonly settings: Readonly<Record<string, Setting>>;
  /** There is a table of these settings for each stream: `[streams.NAME]`. Default: one table. */
  readonly isNamed?: true;
}

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

export const fleetSection = {
  about: 'Nodes that give bundles to each other.',
  settings: {
    enabled: {
      type: flag,
      default: false,
      about: 'Whether this node takes bundles from other nodes and tells the cluster about its releases.',
    },
    listen: {
      type: listenAddress,
      default: 'auto',
      about:
        'Where other nodes reach this one. `auto` is the `InternalIP` of the own Node object. With `0.0.0.0` or `[::]` it listens on all addresses, and names its `InternalIP` to other nodes.',
    },
    peers: {
      type: peerAddresses,
      default: [],
      about: 'Other nodes that are asked besides those that the Kubernetes API names, also while no API server runs.',
    },
    auth: {
      type: oneOf(['kubelet', 'none'], 'must be "kubelet" or "none"'),
      default: 'kubelet',
      about:
        "How nodes prove who they are: with the kubelet's client certificate (TLS 1.3), or not at all. With `none` everything is sent in clear text to everybody who can reach the port, and `fleet.listen` must name an address.",
    },
    kubeconfig: {
      type: absolutePathOrAuto,
      default: 'auto',
      about: "The kubelet's kubeconfig. `auto` looks where kubeadm, OpenShift, k3s, RKE2, MicroK8s and k0s put it.",
    },
    client_ca: {
      type: absolutePathOrAuto,
      default: 'auto',
      about:
        "Certificates of the authorities that sign the kubelets' client certificates, in PEM. `auto` is the kubelet's own `clientCAFile`.",
    },
    serve: {
      type: flag,
      default: true,
      about: 'Whether this node gives bundles to others.',
    },
    except: {
      type: streamNames,
      default: [],
      about: 'Streams that this node does not give to others, such as those whose images need pull secrets.',
    },
    max_clients: {
      type: wholeNumber(1),
      default: 2,
      about: 'How many nodes may take blobs from this one at the same time. Others wait for their turn.',
    },
    rate: {
      type: dataRate,
      default: 'unlimited',
      about: 'How much this node gives to all others together.',
    },
    activate: {
      type: oneOf(['ordered', 'each', 'manual'], 'must be "ordered", "each" or "manual"'),
      default: 'ordered',
      about:
        'When a release is activated in a cluster: node after node, by name, once all known nodes are ready; on each node alone; or when a person runs `stickpin activate`.',
    },
    absent: {
      type: duration,
      default: '1 h',
      about:
        'After which time without a sign of life a node is left out of the order. A node that knows no other one, and may not be alone, waits as long.',
    },
  },
} satisfies Section;

export const historySection = {
  about: 'What `stickpin history` shows.',
  settings: {
    keep: {
      type: durationOrKeep,
      default: '365 d',
      about:
        'How long events are kept, by the clock of the node. The newest 100 stay, whatever the clock says, and there are at most 20,000. `keep`: no time limit.',
    },
  },
} satisfies Section;

export const hooksSection = {
  about: 'systemd services that are started by events of a release, see [hooks.md](hooks.md).',
  settings: {
    'before-activate': {
      type: serviceUnit,
      default: '',
      about:
        'Runs before each activation and must succeed before tags move. While it fails, it holds the activation and is tried again.',
    },
    ready: { type: serviceUnit, default: '', about: 'Every image of a release is present and pinned.' },
    activated: { type: serviceUnit, default: '', about: 'The tags of a release name its images.' },
    proven: { type: serviceUnit, default: '', about: 'A release is proven.' },
    'rolled-back': { type: serviceUnit, default: '', about: 'A release was rolled back.' },
    degraded: {
      type: serviceUnit,
      default: '',
      about: 'The condition `Degraded` of a release has become `True`.',
    },
  },
} satisfies Section;

export const lifecycleSection = {
  about: 'When a release counts as proven, and how long it is kept.',
  settings: {
    soak: {
      type: duration,
      default: '10 min',
      about: 'How long each component must have run without a restart before a release counts as proven.',
    },
    require: { type: texts, default: [], about: 'Components that must be among those that run.' },
    ignore: { type: texts, default: [], about: 'Components that do not count.' },
    keep: {
      type: wholeNumber(1),
      default: 2,
      about: 'How many proven releases of a stream stay pinned. The present one is one of them.',
    },
    remove_images: {
      type: flag,
      default: true,
      about:
        'Whether the images that only a retired release has are removed. It applies to images that stickpin pulled.',
    },
    make_room: {
      type: flag,
      default: true,
      about:
        'Whether the fallback is retired early when the next release lacks space and the present one is proven. Needs `lifecycle.remove_images`.',
    },
    without_evidence: {
      type: durationOrKeep,
      default: 'keep',
      about:
        'After which time an activated release counts as proven although no container of it was ever seen. `keep`: never. [proof.md](decisions/proof.md#without-evidence) says what counts.',
    },
    protect: { type: releases, default: [], about: 'Releases that are never retired.' },
  },
} satisfies Section;

export const mediaSection = {
  about: 'Where bundles come from.',
  settings: {
    detect: { type: flag, default: true, about: 'Whether sticks that udev reports are mounted and read.' },
    directories: {
      type: absolutePaths,
      default: [],
      about:
        'Directories that count as sticks while they exist. A symbolic link in such a path is followed only if root owns it, in a folder where nobody else can replace it.',
    },
    incoming: {
      type: absolutePath,
      default: '/var/lib/stickpin/incoming',
      about: 'The drop folder: a bundle that is copied into it is loaded.',
    },
    grace: {
      type: duration,
      default: '60 s',
      about:
        'How long a transfer waits for its stick to come back. Keep it shorter than the time after which the runtime gives up a pull without progress.',
    },
    filesystems: {
      type: filesystems,
      default: [...defaultFilesystems],
      about:
        'Filesystems that are mounted. The list replaces the default one. [cli.md](cli.md#filesystems-of-media) says more about each.',
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
    state_dir: { type: absolutePath, default: '/var/lib/stickpin', about: 'Folder of what must outlast a reboot.' },
    run_dir: { type: absolutePath, default: '/run/stickpin', about: 'Folder of what must not outlast a reboot.' },
  },
} satisfies Section;

export const preloadSection = {
  about: 'How images are loaded.',
  settings: {
    parallel: {
      type: wholeNumberOrAuto(1, 16),
      default: 'auto',
      about:
        'How many images are pulled at the same time. `auto` is 4 with containerd, and 2 with CRI-O and the embedded runtime.',
    },
    min_free_percent: {
      type: percentUpTo(90),
      default: 15,
      about:
        'Share of the image filesystem that stays free. It also applies to its inodes, and to the filesystem on which the runtime stages blobs.',
    },
    stall: {
      type: duration,
      default: '90 s',
      about: 'A pull that transfers nothing for this long is stopped and tried again.',
    },
    online: {
      type: flag,
      default: true,
      about: 'Whether the images of an envelope without blobs are pulled from their own registries.',
    },
  },
} satisfies Section;

export const registrySection = {
  about: "The registry from which the container runtime pulls. It serves only what a node's bundles carry.",
  settings: {
    listen: {
      type: loopbackAddress,
      default: '127.0.0.1:5317',
      about:
        'Where the registry listens when systemd does not give it a socket. With `stickpin-registry.socket`, that unit says where.',
    },
    allow_uids: {
      type: userIds,
      default: [0],
      about: "Users whose processes may pull. The daemon's own user always may.",
    },
  },
} satisfies Section;

export const retentionSection = {
  about: 'What is kept outside the container runtime.',
  settings: {
    blobs: {
      type: oneOf(['metadata', 'kept']),
      default: 'metadata',
      about:
        "What is kept of the releases on the node's own disk: manifests and configs only, or with `kept` all layers too.",
    },
    incomplete: {
      type: durationOrKeep,
      default: '14 d',
      about:
        'After which time a release is dropped that was never complete, counted from its adoption. One whose bundle is on a plugged medium, that a person asked for, that is protected or that a delta needs is not. `keep`: never.',
    },
    keep_components: {
      type: texts,
      default: [],
      about:
        'Components whose images keep their layers on the disk of the node, as `["os"]`. Every program of root can then pull these images from the node.',
    },
  },
} satisfies Section;

export const runtimeSection = {
  about: 'The container runtime.',
  settings: {
    kind: {
      type: oneOf(['auto', 'cri-o', 'containerd', 'embedded']),
      default: 'auto',
      about:
        'The container runtime that gets the images. `auto` looks for CRI-O and containerd; where both answer it takes CRI-O, unless one is in use already. `embedded` keeps the images in a folder and runs nothing.',
    },
    socket: {
      type: absolutePath,
      default: undefined,
      about: 'Socket of the runtime (CRI). When not set: the usual socket of the runtime.',
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

export const serveSection = {
  about: 'What the registry answers while nothing is loaded, see [mirrors.md](decisions/mirrors.md).',
  settings: {
    activated: {
      type: oneOf(['digests-and-tags', 'digests', 'off']),
      default: 'digests-and-tags',
      about:
        "What the node's own registry answers of activated releases and of the fallback. With `digests-and-tags` the node sees the image of the release under a tag that the release holds, whatever the tag names elsewhere. With `digests` only references by digest are answered. With `off` the mirrors are there only while something is loaded or activated.",
    },
    except: {
      type: repositories,
      default: [],
      about: 'Repositories for which the registry answers only while one of their images is loaded or activated.',
    },
  },
} satisfies Section;

export const streamsSection = {
  about: 'What is said about one release stream. `NAME` is the name of the stream.',
  isNamed: true,
  settings: {
    current: {
      type: version,
      default: undefined,
      about:
        'The version that runs on the node, where stickpin has activated no release of the stream. Without it neither `from` nor barriers apply there.',
    },
  },
} satisfies Section;

export const trustSection = {
  about: 'Which bundles are accepted.',
  settings: {
    keys_dir: {
      type: absolutePath,
      default: '/etc/stickpin/keys.d',
      about:
        'Folder of the trusted keys (`*.pub`), the revoked keys (`*.revoked`) and the [roles](decisions/key-roles.md) (`*.toml`), at most 64 files. Only root may write the folder and the files in it.',
    },
    threshold: {
      type: wholeNumber(1),
      default: 1,
      about:
        'How many different plain keys (`*.pub`) must have signed a bundle. A [role](decisions/key-roles.md) has a threshold of its own.',
    },
    max_sequence_step: {
      type: wholeNumber(0),
      default: 0,
      about:
        'How far the sequence of an unknown bundle may be above the highest one of its stream that was activated here when its stick was plugged in. 0: any distance, since a sequence may be a timestamp.',
    },
    require: {
      type: oneOf(['signature', 'approval', 'both'], 'must be "signature", "approval" or "both"'),
      default: 'signature',
      about:
        'What an unknown bundle needs before it is accepted: signatures of trusted keys, an approval of its digest, or both.',
    },
    approved: {
      type: bundleDigests,
      default: [],
      about:
        'Digests of approved bundles. `stickpin approve` approves more of them. `stickpin reject` wins over this list.',
    },
  },
} satisfies Section;

export const updateSection = {
  about: 'When a release is activated automatically ([cli.md](cli.md#when-a-release-is-activated)).',
  settings: {
    strategy: {
      type: oneOf(['immediate', 'window', 'manual'], 'must be "immediate", "window" or "manual"'),
      default: 'immediate',
      about:
        'When a release that is ready is activated: at once, while one of `update.windows` is open, or when a person runs `stickpin activate`.',
    },
    windows: {
      type: weeklyWindows,
      default: [],
      about:
        'Windows for the strategy `window`, each a table `[[update.windows]]`. `days` are the weekdays on which it begins. Windows may overlap, cross midnight and the week, and be longer than a day.',
    },
    time_zone: {
      type: timeZone,
      default: 'UTC',
      about:
        'The time zone of all windows; `localtime` is the one of the node. On the day when summer time begins or ends, a window may be longer or shorter, or not exist.',
    },
    rollout_wariness: {
      type: fraction,
      default: undefined,
      about:
        'How cautious this node is in rollouts: 0 is among the first, 1 the last. When not set: a hash of `/etc/machine-id` and the stream ([bundle-format.md](bundle-format.md#rollout)).',
    },
    allow_downgrade: {
      type: flag,
      default: false,
      about:
        'Whether a release with a lower version or sequence than the present one is accepted, and activated without a confirmation. It applies to releases that come after the present one was activated.',
    },
    allow_end_of_life: {
      type: flag,
      default: false,
      about: 'Whether a release that is past its end of life is activated without a confirmation.',
    },
    pulls_from_elsewhere: {
      type: oneOf(['warn', 'hold'], 'must be "warn" or "hold"'),
      default: 'warn',
      about:
        'What happens when a static pod or a running container asks for an image by a name that no activated release provides. `"warn"`: only the condition `PullsFromElsewhere` says so. `"hold"`: a release is activated only when all names are provided after that. See [pulls.md](decisions/pulls.md#pulls-from-elsewhere).',
    },
  },
} satisfies Section;

import { defaultFilesystems } from '../model/medium.ts';
import { keyIds, serviceUnit, serviceUnits } from './hook-units.ts';
import { rollOutOrder } from './roll-out-order.ts';
import {
  absolutePath,
  absolutePaths,
  bundleDigests,
  bundleReference,
  containerNames,
  dataRate,
  duration,
  durationOrKeep,
  filesystems,
  flag,
  fraction,
  lockGroup,
  oneOf,
  percentOrAutoUpTo,
  releases,
  repositories,
  serviceUrl,
  tags,
  texts,
  timeZone,
  type ValueType,
  version,
  weeklyWindows,
  wholeNumber,
  wholeNumberOrAuto,
} from './value-types.ts';

export interface Setting {
  readonly type: ValueType<unknown>;
  /** The value as written in a file. Undefined if an unset key has its own meaning. */
  readonly default: unknown;
  /** The text of the reference: whole sentences in Markdown. */
  readonly about: string;
}

export interface Section {
  /** The topic of its keys, for the reference. */
  readonly about: string;
  readonly settings: Readonly<Record<string, Setting>>;
  /** Each stream has a table of these settings: `[streams.NAME]`. Default: one table. */
  readonly isNamed?: true;
}

export const historySection = {
  about: 'What `stickpin history` shows.',
  settings: {
    keep: {
      type: durationOrKeep,
      default: '365 d',
      about:
        'How long events are kept, by the clock of the node. The newest 100 always stay, and at most 20,000 are kept. `keep`: no time limit.',
    },
  },
} satisfies Section;

export const hooksSection = {
  about: 'systemd services that are started by events of a release or of the node, see [hooks.md](hooks.md).',
  settings: {
    'before-activate': {
      type: serviceUnit,
      default: '',
      about:
        'Runs before each activation and must succeed before tags move. While it fails, the activation is held, and the service is retried.',
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
    plugged: { type: serviceUnit, default: '', about: 'A stick was plugged in.' },
    preloading: { type: serviceUnit, default: '', about: 'A release begins to be loaded, or goes on.' },
    rejected: { type: serviceUnit, default: '', about: 'A stick has a bundle that is not taken.' },
    held: { type: serviceUnit, default: '', about: 'A release can not be loaded yet.' },
    removable: { type: serviceUnit, default: '', about: 'The stick may be removed.' },
    failed: { type: serviceUnit, default: '', about: 'Something needs support.' },
    removed: { type: serviceUnit, default: '', about: 'The last stick was removed.' },
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
    require: { type: texts, default: [], about: 'Components that must run.' },
    ignore: { type: texts, default: [], about: 'Components that do not count.' },
    keep: {
      type: wholeNumber(1),
      default: 2,
      about: 'How many proven releases of a stream stay pinned, with the current one.',
    },
    remove_images: {
      type: flag,
      default: true,
      about:
        'Whether images that only a retired release has are removed. Images that stickpin did not pull always stay.',
    },
    make_room: {
      type: flag,
      default: true,
      about:
        'Whether the fallback is retired early when the next release lacks space and the current one is proven. Needs `lifecycle.remove_images`.',
    },
    without_evidence: {
      type: durationOrKeep,
      default: 'keep',
      about:
        'How long until an activated release counts as proven although no container of it was ever seen. `keep`: never. What counts stands in [proof.md](decisions/proof.md#without-evidence).',
    },
    protect: {
      type: releases,
      default: [],
      about: 'Releases that are never retired, beside those whose bundle says so (`bundle create --keep life`).',
    },
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
      about: 'The drop folder: bundles that are copied into it are loaded.',
    },
    grace: {
      type: duration,
      default: '60 s',
      about:
        'How long a transfer waits until its stick is plugged in again. Keep it shorter than the time after which the runtime gives up a pull without progress.',
    },
    filesystems: {
      type: filesystems,
      default: [...defaultFilesystems],
      about:
        'Filesystems that are mounted. This list replaces the default list. Each of them is described in [cli.md](cli.md#filesystems-of-media).',
    },
  },
} satisfies Section;

export const preloadSection = {
  about: 'How images are loaded.',
  settings: {
    parallel: {
      type: wholeNumberOrAuto(1, 16),
      default: 'auto',
      about:
        'How many images are pulled at the same time. `auto` is 4 with containerd and the image store of it in Docker, and 2 with all others.',
    },
    min_free_percent: {
      type: percentOrAutoUpTo(90),
      default: 'auto',
      about:
        'Share of the image filesystem that stays free. `auto` is 15 on a node with a kubelet, which removes images and ends pods when less is free, and 5 on others. It also applies to its inodes, and to the filesystem on which the runtime stages blobs.',
    },
    stall: {
      type: duration,
      default: '90 s',
      about: 'A pull that transfers nothing for this long is stopped and retried.',
    },
    online: {
      type: flag,
      default: true,
      about: 'Whether the images of an envelope without blobs are pulled from their own registries.',
    },
  },
} satisfies Section;

export const retentionSection = {
  about: 'What stickpin keeps outside the container runtime.',
  settings: {
    blobs: {
      type: oneOf(['metadata', 'kept']),
      default: 'metadata',
      about:
        "What of the releases is kept on the node's own disk: manifests and configs only, or with `kept` all layers too.",
    },
    incomplete: {
      type: durationOrKeep,
      default: '14 d',
      about:
        'How long an incomplete release is kept, counted from its adoption. It is kept longer while its bundle is on a plugged medium, while its activation is requested, while it is protected, and while a delta needs it. `keep`: for ever.',
    },
    keep_components: {
      type: texts,
      default: [],
      about:
        'Components whose layers are kept on the disk of the node, as `["os"]`. Every program of root can then pull these images from the node.',
    },
  },
} satisfies Section;

export const serveSection = {
  about: 'What the registry serves while nothing is loaded, see [mirrors.md](decisions/mirrors.md).',
  settings: {
    activated: {
      type: oneOf(['digests-and-tags', 'digests', 'off']),
      default: 'digests-and-tags',
      about:
        "Which pulls of activated releases and of the fallback the node's own registry answers. `digests-and-tags`: by digest and by tag; the node then gets the image of the release for a tag that the release holds, whatever the tag names elsewhere. `digests`: by digest only. `off`: none; mirrors exist only while something is loaded or activated.",
    },
    except: {
      type: repositories,
      default: [],
      about: 'Repositories whose pulls are answered only while one of their images is loaded or activated.',
    },
  },
} satisfies Section;

export const streamsSection = {
  about: 'Settings of one release stream. `NAME` is the name of the stream.',
  isNamed: true,
  settings: {
    current: {
      type: version,
      default: undefined,
      about:
        'The version that runs on the node before stickpin has activated a release of the stream. Without it, neither `from` nor barriers apply until then.',
    },
    order: {
      type: rollOutOrder,
      default: undefined,
      about: 'The order of the nodes for releases of this stream, in place of `fleet.order`.',
    },
    units: {
      type: serviceUnits,
      default: [],
      about:
        'Units of `[hooks]` that are started for releases of this stream. A unit that is named here is started for no other stream. The units that come with stickpin are started for no stream without it. Needs `unit_keys`.',
    },
    unit_keys: {
      type: keyIds,
      default: [],
      about:
        'The ids of the keys one of which must have signed a release for which `units` are started. `stickpin trust list` prints them.',
    },
    tag_after_proof: {
      type: tags,
      default: [],
      about:
        'Tags that the images of the release that was proven last get too, beside those of the bundle: with `["latest"]` each repository of the release that has one image in it gets `<repository>:latest`. The tags of the bundle are then versions: an image that the node has under one already keeps it. See [tags.md](decisions/tags.md#tags-after-the-proof).',
    },
    replace_stopped: {
      type: containerNames,
      default: [],
      about:
        'Containers, such as `["swss"]`, that a unit of the node makes of the images with `tag_after_proof`. Once these tags have moved, such a container is removed when it does not run and was made from another image of the same repository: of an older release, of one that was rolled back, or of the node itself; its volumes stay. Only Docker and Podman have such names. Needs `tag_after_proof`.',
    },
    local_images: {
      type: oneOf(['keep', 'retire']),
      default: 'keep',
      about:
        'What becomes of the images that the node came with, in the repositories that get tags by `tag_after_proof`. `keep`: they stay. `retire`: once a release is proven, those under newer versions are removed, and those under older ones as soon as `lifecycle.keep` releases are proven; until then the newest one stays as the fallback. An image stays that a container, even one that has ended, or a static pod uses, and so does one under a tag that is no version: it must begin with a digit, or with `v` and a digit. The API server is not asked: the image of a CronJob that has no container on the node now does not count as used, unless a release has it. None is removed in the first 15 minutes after a boot. Needs `tag_after_proof`.',
    },
  },
} satisfies Section;

export const sourcesSection = {
  about: 'A bundle in a registry that this node follows, see [link.md](link.md). `NAME` is any name.',
  isNamed: true,
  settings: {
    reference: {
      type: bundleReference,
      default: undefined,
      about: 'The tag that is followed. A section without it does nothing.',
    },
    every: {
      type: duration,
      default: '1d',
      about: 'How often the tag is read, each time up to a tenth earlier or later by chance; every minute at most.',
    },
    authfile: {
      type: absolutePath,
      default: undefined,
      about: 'Credentials, as in containers-auth.json(5), which the user of the unit must be able to read.',
    },
    ca: {
      type: absolutePath,
      default: undefined,
      about:
        'Certificates of authorities in PEM for the registry, in place of those of the system and of `/etc/containers/certs.d`.',
    },
    rate: {
      type: dataRate,
      default: 'unlimited',
      about: 'How much is taken from this registry.',
    },
    windows: {
      type: weeklyWindows,
      default: [],
      about:
        'When blobs of more than 256 KiB are taken, as `update.windows`, each a table `[[sources.NAME.windows]]`. Without any: always. The tag and the documents are read at any time.',
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
        'How many different plain keys (`*.pub`) must have signed a bundle. A [role](decisions/key-roles.md) has its own threshold.',
    },
    max_sequence_step: {
      type: wholeNumber(0),
      default: 0,
      about:
        'How far the sequence of a new bundle may be above the highest sequence of its stream that was activated on this node when the stick was plugged in. 0: no limit, since a sequence may be a timestamp.',
    },
    require: {
      type: oneOf(['signature', 'approval', 'both'], 'must be "signature", "approval" or "both"'),
      default: 'signature',
      about: 'What a new bundle needs to be accepted: signatures of trusted keys, an approval of its digest, or both.',
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
        'When a ready release is activated: at once, while one of `update.windows` is open, or when a person runs `stickpin activate`.',
    },
    windows: {
      type: weeklyWindows,
      default: [],
      about:
        'Windows for the strategy `window`, each a table `[[update.windows]]`. `days` are the weekdays on which a window begins. Windows may overlap, pass midnight and the end of the week, and be longer than a day.',
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
        'How cautious this node is in rollouts: with 0 it is among the first, with 1 the last. When not set: a hash of `/etc/machine-id` and the stream ([bundle-format.md](bundle-format.md#rollout)).',
    },
    allow_downgrade: {
      type: flag,
      default: false,
      about:
        'Whether a release with a lower version or sequence than the current one is accepted, and activated without a confirmation. It applies to releases that arrive after the current one was activated.',
    },
    allow_end_of_life: {
      type: flag,
      default: false,
      about: 'Whether a release is activated without a confirmation after its end of life.',
    },
    fleet_lock: {
      type: serviceUrl,
      default: '',
      about:
        'A [FleetLock](https://coreos.github.io/zincati/development/fleetlock/protocol/) server. A release is activated automatically only while this node has a lock of it; the lock is given back when no release is activated that is not proven. Needs `fleet.enabled`. See [fleet.md](fleet.md#a-lock-for-reboots).',
    },
    fleet_lock_group: {
      type: lockGroup,
      default: 'default',
      about: 'The group of this node at the FleetLock server.',
    },
    pulls_from_elsewhere: {
      type: oneOf(['warn', 'hold'], 'must be "warn" or "hold"'),
      default: 'warn',
      about:
        'What happens when a static pod or a running container uses an image by a name that no activated release provides. `"warn"`: the condition `PullsFromElsewhere` reports it. `"hold"`: a release is activated only if all names are provided afterwards. See [pulls.md](decisions/pulls.md#pulls-from-elsewhere).',
    },
  },
} satisfies Section;

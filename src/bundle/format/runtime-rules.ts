import { oneLine } from '../../platform/plain-text.ts';
import {
  BASELINE,
  configMediaTypes,
  type ImageIndex,
  type ImageManifest,
  type IndexEntry,
  indexMediaTypes,
  mediaTypes,
} from './oci-schema.ts';

/*
 * What each runtime takes, as measured (docs/runtime-facts.md, fact 57). Docker with containerd's
 * image store follows containerd.
 */

/** A name with a version begins with the name for all versions. */
type Runtime =
  | 'CRI-O'
  | 'CRI-O (older)'
  | 'Podman'
  | 'Podman (older)'
  | 'containerd'
  | 'containerd before 2.0'
  | 'Docker'
  | 'Docker before 26';

/** The media types that runtimes require. `most`: the most layers that they mount. */
interface Rule {
  readonly runtimes: readonly Runtime[];
  readonly config: Readonly<Record<Form, RegExp>>;
  readonly layer: Readonly<Record<Form, readonly RegExp[]>>;
  readonly most: number;
}

type Form = 'Docker' | 'OCI';

const ANY = /^/;
const IMAGE_CONFIG = new RegExp(
  `^(?:${[...configMediaTypes].map((type) => type.replace(/[.+]/g, '\\$&')).join('|')})$`,
);
const OCI_CONFIG = /^application\/vnd\.oci\.image\.config\.v1\+json$/;
const DOCKER_LAYER = /^application\/vnd\.docker\.image\.rootfs\.(?:foreign\.)?diff\.tar(?:\.gzip)?$/;
/** BuildKit 0.10 and 0.11, and later ones with `oci-mediatypes=false`, write this type. */
const DOCKER_ZSTD = /^application\/vnd\.docker\.image\.rootfs\.diff\.tar\.zstd$/;
/** Encrypted layers need a decoder on the node, which containerd and CRI-O can have. */
const OCI_LAYER =
  /^application\/vnd\.oci\.image\.layer\.(?:nondistributable\.)?v1\.tar(?:\+gzip|\+zstd|\+(?:\w+\+)?encrypted)?$/;
const KNOWN_LAYER = /^application\/(?:octet-stream$|vnd\.docker\.|vnd\.oci\.image\.)/;

const BY_TAR = [DOCKER_LAYER, OCI_LAYER];

const RULES: readonly Rule[] = [
  {
    runtimes: ['CRI-O', 'Podman'],
    config: { Docker: ANY, OCI: OCI_CONFIG },
    layer: { Docker: [DOCKER_LAYER, DOCKER_ZSTD], OCI: [ANY] },
    most: 500,
  },
  {
    runtimes: ['CRI-O (older)', 'Podman (older)'],
    config: { Docker: ANY, OCI: OCI_CONFIG },
    layer: { Docker: [DOCKER_LAYER], OCI: [ANY] },
    most: 500,
  },
  {
    runtimes: ['containerd'],
    config: { Docker: IMAGE_CONFIG, OCI: IMAGE_CONFIG },
    layer: { Docker: [...BY_TAR, DOCKER_ZSTD], OCI: [...BY_TAR, DOCKER_ZSTD] },
    most: 500,
  },
  {
    runtimes: ['containerd before 2.0'],
    config: { Docker: IMAGE_CONFIG, OCI: IMAGE_CONFIG },
    layer: { Docker: BY_TAR, OCI: BY_TAR },
    most: 500,
  },
  {
    runtimes: ['Docker'],
    config: { Docker: ANY, OCI: ANY },
    layer: { Docker: [KNOWN_LAYER], OCI: [KNOWN_LAYER] },
    most: 125,
  },
];

/** Why some runtimes can't use an image. */
export interface Unfit {
  readonly runtimes: readonly Runtime[];
  /** A clause. */
  readonly why: string;
  /** A clause that says what to do. */
  readonly wayOut: string;
}

export function unfitText({ runtimes, why, wayOut }: Unfit): string {
  const [last, ...others] = [...runtimes].reverse();
  const all = others.length === 0 ? last : `${others.reverse().join(', ')} and ${last}`;
  return `${all} can't use it, since ${why}: ${wayOut}`;
}

/** Whether no runtime can use it. */
export function isUnfitForAll(unfit: readonly Unfit[]): boolean {
  const all = unfit.flatMap(({ runtimes }) => runtimes);
  return RULES.every((rule) => rule.runtimes.every((runtime) => all.some((other) => runtime.startsWith(other))));
}

/** @param sentAs the media type with which the manifest is sent */
export function unfitManifest({ mediaType, config, layers }: ImageManifest, sentAs: string): Unfit[] {
  const form = sentAs === mediaTypes.dockerManifest ? 'Docker' : 'OCI';
  const found: Unfit[] = [];
  if (form === 'Docker' && mediaType !== mediaTypes.dockerManifest)
    found.push({ runtimes: ['CRI-O', 'Podman', 'Docker'], why: 'its manifest has no mediaType', wayOut: CONVERT });
  for (const { runtimes, ...takes } of RULES) {
    const add = (why: string, wayOut: string) => found.push({ runtimes, why, wayOut });
    if (!takes.config[form].test(config.mediaType))
      add(`it is an image of the ${form} form with a config of the type ${oneLine(config.mediaType)}`, CONVERT);
    const bad = layers.find((layer) => !takes.layer[form].some((type) => type.test(layer.mediaType)))?.mediaType;
    if (bad !== undefined)
      add(
        `it is an image of the ${form} form with a layer of the type ${oneLine(bad)}`,
        OCI_LAYER.test(bad) ? CONVERT : BUILD,
      );
    if (layers.length > takes.most) add(`it has ${layers.length} layers, and ${takes.most} can be mounted`, SQUASH);
  }
  return merged(found);
}

const CONVERT = "give it the types of OCI with 'ctr images convert --oci', or build it again with oci-mediatypes=true";
const BUILD = 'build it again, as with docker buildx build --output type=registry,oci-mediatypes=true';
const SQUASH = 'build it with fewer layers, or leave it out for such nodes';

/** An index has only entries for named variants of the processor, or an index as entry. */
export function unfitIndex({ manifests }: ImageIndex, architecture: string, chosen: readonly IndexEntry[]): Unfit[] {
  const found: Unfit[] = [];
  const variants = manifests.flatMap(({ platform }) =>
    platform?.os === 'linux' && platform.architecture === architecture ? [platform.variant ?? ''] : [],
  );
  const named = `its index has linux/${architecture} only as ${variants.map((variant) => `/${variant}`).join(', ')}`;
  const wayOut = 'give its manifest by digest in place of the index';
  const baseline = BASELINE[architecture];
  if (baseline !== undefined && variants.length > 0 && !variants.includes('')) {
    if (!variants.includes(baseline))
      found.push({ runtimes: ['CRI-O', 'Podman', 'containerd', 'Docker before 26'], why: named, wayOut });
    else if (architecture === 'amd64') found.push({ runtimes: ['CRI-O', 'Podman'], why: named, wayOut });
  }
  const inner = chosen.find(({ mediaType }) => indexMediaTypes.has(mediaType));
  if (inner !== undefined) {
    const why = `its index names another index, ${inner.digest}, for linux/${architecture}`;
    found.push({ runtimes: ['CRI-O', 'Podman', 'Docker before 26'], why, wayOut });
  }
  return found;
}

/** Each reason once. A runtime that is meant whole is not named by its earlier versions, too. */
function merged(found: readonly Unfit[]): Unfit[] {
  const whys = new Map(found.map((one) => [one.why, one]));
  return [...whys.values()].map(({ why, wayOut }) => {
    const all = found.filter((one) => one.why === why).flatMap(({ runtimes }) => runtimes);
    const runtimes = all.filter((one) => !all.some((other) => other !== one && one.startsWith(other)));
    return { runtimes: [...new Set(runtimes)], why, wayOut };
  });
}

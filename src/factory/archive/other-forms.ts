import { type Digest, digestFromHex, hexOf } from '../../domain/model/digest.ts';

/** What people give as an archive that is none, by the names in it, and what to do with it. */
const CONTENTS: readonly (readonly [name: RegExp, advice: string])[] = [
  [
    /(?:^|\/)docker\/registry\/v2\//,
    'it is the storage of a registry without a tag: one of oc-mirror is taken with --from-openshift-iso, beside all its parts',
  ],
  [/^publish\/\.metadata\.json$/, 'it is of oc-mirror 1: mirror the release again with oc-mirror --v2'],
  [/^images\.tar$/, 'its images are in images.tar: take that out, and give it with --archive'],
  [/^zarf\.yaml$/, 'it is a package of zarf without images'],
  [
    /^repositories$/,
    'it is of Docker before 1.10, and newer ones do not load it: pull its images again, and save them with a newer one',
  ],
  [
    /(?:^|\/)version$/,
    "it has images in the form of skopeo's dir: take them out, and give each as --image REFERENCE=dir:FOLDER, with the folder of its manifest.json",
  ],
  [
    /^manifests\/.+\/digest\//,
    'it is an image cache of Talos: give the list of images that it was made of, with --images-file',
  ],
  [/^manifest\.json$/, 'it is an unpacked archive: pack it again, as tar cf FILE -C FOLDER .'],
  [/(?:^|\/)Chart\.yaml$/, 'it is a chart: give its output, as helm template NAME FILE | … --images-from -'],
  [/\.(?:tar|tgz|tar\.[a-z0-9]{2,4})$/i, 'it has archives in it: take them out, and give each of them with --archive'],
];

/** Why files of these names are no images. */
export function otherContent(names: readonly string[]): string {
  const [, advice] = CONTENTS.find(([pattern]) => names.some((name) => pattern.test(name))) ?? [];
  return advice ?? 'it has neither index.json nor manifest.json, so it is no archive of images';
}

const text = (beginning: string) => new RegExp(`^(?:\\xef\\xbb\\xbf)?\\s*${beginning}`, 'i');
const magic = (hex: string) => new RegExp(`^${Buffer.from(hex, 'hex').toString('latin1')}`, 's');
const unpackWith = (packer: string, unpacker: string) =>
  `it is packed with ${packer}: unpack it with ${unpacker}, and give the .tar`;

/** What people give as an archive that is none, by its first bytes, as Latin-1. */
const HEADS: readonly (readonly [beginning: RegExp, advice: string])[] = [
  [magic('fd377a585a00'), unpackWith('xz', 'unxz')],
  [/^BZh/, unpackWith('bzip2', 'bunzip2')],
  [magic('04224d18'), unpackWith('lz4', 'unlz4')],
  [magic('504b0304'), 'it is a zip: unpack it with unzip, and give what is in it'],
  [
    text('<(?:!doctype|html|\\?xml)'),
    'it is a page of a web server, such as a login or an error, and not the file: download it again, and look at what comes',
  ],
  [/^version https:\/\/git-lfs/, 'it is a pointer of Git LFS, and not the file: fetch the file with git lfs pull'],
];

/** Why a file that begins like this is no archive. */
export function otherHead(head: Buffer): string | undefined {
  const start = head.toString('latin1', 0, 512);
  return HEADS.find(([beginning]) => beginning.test(start))?.[1];
}

export const NO_REGISTRY =
  'it is the storage of a registry, which does not say the name of that registry: say it with --short-names, for example --short-names registry.example.com';

export const OF_OPENSHIFT =
  'it has an OpenShift release: give it with --from-openshift-iso instead, beside all its parts';

interface StoredTag {
  readonly repository: string;
  readonly tag: string;
  /** The file with the digest of its image. */
  readonly file: Digest;
}

/** A registry of the distribution project keeps its files there. */
export const STORAGE = 'docker/registry/v2';
const REPOSITORIES = `${STORAGE}/repositories/`;
const TAGS = '/_manifests/tags/';
const LINK = '/current/link';

export function tagLink(repository: string, tag: string): string {
  return `${REPOSITORIES}${repository}${TAGS}${tag}${LINK}`;
}

const REVISIONS = '/_manifests/revisions/sha256/';

export function revisionLink(repository: string, digest: Digest): string {
  return `${REPOSITORIES}${repository}${REVISIONS}${hexOf(digest)}/link`;
}

/** Digests of manifests, also of those without a tag. */
export function storedRevisions(files: ReadonlyMap<string, unknown>): Digest[] {
  const names = [...files.keys()].filter((name) => name.includes(REPOSITORIES));
  const found = names.flatMap((name) => /\/_manifests\/revisions\/sha256\/([0-9a-f]{64})\/link$/.exec(name)?.[1] ?? []);
  return [...new Set(found)].sort().map(digestFromHex);
}

/** Sorted: an archive has them in any order. */
export function storedTags(files: ReadonlyMap<string, { readonly digest: Digest }>): StoredTag[] {
  const tags: StoredTag[] = [];
  for (const [name, { digest }] of [...files].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const [start, tagsAt] = [name.indexOf(REPOSITORIES), name.lastIndexOf(TAGS)];
    if (start < 0 || tagsAt < start || !name.endsWith(LINK)) continue;
    const repository = name.slice(start + REPOSITORIES.length, tagsAt);
    tags.push({ repository, tag: name.slice(tagsAt + TAGS.length, -LINK.length), file: digest });
  }
  return tags;
}

import assert from 'node:assert/strict';
import { imagesIn, parseManifestDocuments } from '../../../src/bundle/documents/kubernetes-manifest.ts';
import { checkContents, parseContents, parseStoredContents } from '../../../src/bundle/format/check-contents.ts';
import { formatEnvelope, parseEnvelope } from '../../../src/bundle/format/dsse.ts';
import {
  parseConfig,
  parseImageDocument,
  parseIndex,
  parseLayoutIndex,
  parseManifest,
  parseSourceIndex,
} from '../../../src/bundle/format/oci-schema.ts';
import { parseReferrers, parseReferring } from '../../../src/bundle/format/referrers.ts';
import { parseAdvisories, parseOrder, parsePayload, parseStoredPayload } from '../../../src/bundle/format/schema.ts';
import { parseImageRequest } from '../../../src/bundle/image-request.ts';
import { holdsPrivateKey, parsePrivateKey, parsePublicKey, parseRevocations } from '../../../src/bundle/keys/keys.ts';
import { formatRevocationRecord, parseRevocationRecord } from '../../../src/bundle/keys/revocation-record.ts';
import { formatReference, mirrorPathOf, parseReference } from '../../../src/domain/model/reference.ts';
import {
  compareVersions,
  formatSchemeTag,
  isInRange,
  isTagWithin,
  isVersion,
  parseSchemeTag,
} from '../../../src/domain/model/version.ts';
import { parseImagesFile } from '../../../src/factory/images/images-file.ts';
import { composeNotes, imagesOfList, isOtherList, quadletImages } from '../../../src/factory/images/unit-images.ts';
import { parts, read, readsBack, type Target, textsIn } from '../target.ts';

const envelope: Target = (data) => readsBack(data, parseEnvelope, formatEnvelope);

const payload: Target = (data) => {
  const parsed = read(() => parsePayload(data));
  if (parsed !== undefined) {
    assert.deepEqual(parseStoredPayload(Buffer.from(JSON.stringify(parsed))), parsed);
    // Keys are PEM, in lines; every other text can be shown as it is.
    const { trust: _keys, ...shown } = parsed;
    for (const text of textsIn(shown)) assert.doesNotMatch(text, /\p{Cc}/u);
  }
  readsBack(data, (bytes) => parseOrder(bytes, 'order.json'), JSON.stringify);
  readsBack(data, (bytes) => parseAdvisories(bytes, 'advisories.json'), JSON.stringify);
};

/** A payload and the contents, with a line break between them. */
const contents: Target = (data) => {
  const [first, second] = parts(data, 2);
  const bytes = Buffer.from(second ?? '');
  const parsed = read(() => parseContents(bytes, []));
  if (parsed) assert.deepEqual(parseStoredContents(Buffer.from(JSON.stringify(parsed))), parsed);
  read(() => checkContents(parseContents(bytes), parsePayload(Buffer.from(first ?? ''))));
};

const ociDocuments: Target = (data) => {
  const [what, code] = ['it', 'bundle/inconsistent'] as const;
  for (const parse of [parseConfig, parseImageDocument, parseIndex, parseLayoutIndex, parseManifest]) {
    readsBack<unknown>(data, (bytes) => parse(bytes, what, code), JSON.stringify);
  }
  for (const parse of [parseReferrers, parseReferring, parseSourceIndex]) read(() => parse(data, what, code));
};

const keys: Target = (data) => {
  const text = data.toString();
  const own = read(() => parsePrivateKey(text, 'it'));
  if (own !== undefined) assert(holdsPrivateKey(Buffer.from(text)), 'a private key is not noticed');
  const found = read(() => parsePublicKey(text, 'it'));
  if (found !== undefined) {
    assert.equal(holdsPrivateKey(data), false);
    const pem = String(found.key.export({ type: 'spki', format: 'pem' }));
    assert.equal(parsePublicKey(pem, 'it').keyId, found.keyId);
    assert.deepEqual(parseRevocations(pem, 'it')[0]?.keyId, found.keyId);
  }
  for (const { keyId } of read(() => parseRevocations(text, 'it')) ?? []) assert.match(keyId, /^[0-9a-f]{64}$/);
  readsBack(data, (bytes) => parseRevocationRecord(String(bytes), 'it'), formatRevocationRecord);
};

const imageNames: Target = (data) => {
  const text = data.toString();
  read(() => parseImagesFile(text, 'images.txt'));
  for (const line of parts(data, 1)) {
    read(() => parseImageRequest(line, 'docker.io'));
    const reference = read(() => parseReference(line));
    if (reference === undefined) continue;
    assert.match(reference.repository, /^[a-z0-9.:[\]-]+(?:\/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)+$/);
    assert.deepEqual(parseReference(formatReference(reference)), reference);
    assert.match(mirrorPathOf(reference.repository), /^[a-z0-9._-]+(?:\/[a-z0-9._-]+)+$/);
  }
};

/** Two versions and a range, a line each. */
const versions: Target = (data) => {
  const [one = '', other = '', range = ''] = parts(data, 3);
  const tag = parseSchemeTag(one);
  if (tag !== undefined) assert.deepEqual(parseSchemeTag(formatSchemeTag(tag)), tag);
  for (const scheme of ['semver', 'three-tag'] as const) {
    isInRange(one, range, scheme);
    if (!isVersion(one) || !isVersion(other)) continue;
    const order = Math.sign(compareVersions(one, other, scheme));
    assert.equal(Math.sign(compareVersions(other, one, scheme)), 0 - order);
  }
  isTagWithin(one, range);
};

const manifests: Target = (data) => {
  const documents = read(() => parseManifestDocuments(data.toString(), 'pod.yaml')) ?? [];
  const lists = documents.map(({ value }) => value).filter(isOtherList);
  const found = [
    ...imagesIn(documents, 'pod.yaml'),
    ...lists.flatMap(imagesOfList),
    ...quadletImages(String(data)).images,
  ];
  for (const { usedBy, image } of found) assert(typeof usedBy === 'string' && typeof image === 'string');
  for (const value of lists) composeNotes(value);
};

export const bundleTargets: Readonly<Record<string, Target>> = {
  envelope,
  payload,
  contents,
  'oci-documents': ociDocuments,
  keys,
  'image-names': imageNames,
  versions,
  manifests,
};

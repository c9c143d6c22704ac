import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import * as v from 'valibot';
import { parseStatusAnnotation } from '../../../src/domain/fleet/node-status.ts';
import { parseReference } from '../../../src/domain/model/reference.ts';
import { FLEET_PORT, formatEndpoint, isUnspecified, parseEndpoint } from '../../../src/domain/settings/addresses.ts';
import { SignatureReader } from '../../../src/factory/verify/image-signatures.ts';
import { readImagePolicy, ruleFor } from '../../../src/factory/verify/policy-file.ts';
import { SigstoreRoot } from '../../../src/factory/verify/trusted-root.ts';
import { checkPeer } from '../../../src/fleet/identity/identity.ts';
import { parseKubeconfig } from '../../../src/fleet/identity/kubelet-files.ts';
import { checkKey, parseKeys } from '../../../src/fleet/identity/node-keys.ts';
import { appliedKeys, readNode, readWatchEvent } from '../../../src/fleet/kubernetes/objects.ts';
import { parseOwnReport, parseServes, servesAnnotation } from '../../../src/fleet/publish/own-report.ts';
import {
  blobsSchema,
  fleetSchema,
  offersSchema,
  parseBusy,
  parsePeerPath,
  parseWirePath,
  wireLimits,
} from '../../../src/fleet/wire/documents.ts';
import { digestOf } from '../../../src/platform/digest.ts';
import { isAccepted, isUnmodified, parseRange, rangeInForce } from '../../../src/platform/http.ts';
import { plainDocument } from '../../../src/platform/plain-text.ts';
import { parseRoute, queryOf } from '../../../src/registry/route.ts';
import { json, parts, read, readLater, type Target, withFile } from '../target.ts';

const SIZE = 1_000;
const NOW = Date.parse('2026-01-01T00:00:00Z');

/** The target of a request and four of its headers, a line each. */
const registryRequest: Target = (data) => {
  const [url = '', range = '', none = '', ifRange = '', accept = ''] = parts(data, 5);
  for (const token of [undefined, '0'.repeat(32)]) {
    const route = parseRoute(url, token);
    if ('repository' in route) assert.match(route.repository, /^[a-z0-9]+(?:[._-]+[a-z0-9]+|\/[a-z0-9]+)*$/);
    if ('digest' in route) assert.match(route.digest, /^sha256:[0-9a-f]{64}$/);
  }
  queryOf(url);
  const headers = { range, accept, 'if-none-match': none, 'if-range': ifRange };
  isUnmodified(headers, 'v');
  isAccepted(headers, 'application/vnd.oci.image.manifest.v1+json');
  for (const header of [range, rangeInForce(headers, 'v')]) {
    const found = parseRange(header, SIZE);
    if (found.kind === 'part') assert(found.first >= 0 && found.first <= found.last && found.last < SIZE);
  }
};

/** The target of a request, an address, the time of a refusal and its body, a line each. */
const wireRequest: Target = (data) => {
  const [path = '', address = '', retryAfter = '', body = ''] = parts(data, 4);
  parseWirePath(path);
  const peer = parsePeerPath(path);
  if (peer !== undefined) assert(peer.peer !== '' && peer.path.startsWith('/'));
  const endpoint = parseEndpoint(address, FLEET_PORT);
  if (endpoint !== undefined) assert.deepEqual(parseEndpoint(formatEndpoint(endpoint), 1), endpoint);
  isUnspecified(address);
  const { retryMs } = parseBusy(retryAfter, body);
  assert(retryMs > 0 && retryMs <= wireLimits.longestRetryMs);
};

/** Documents of other nodes and of the processes of this one. */
const wireDocuments: Target = (data) => {
  const document = plainDocument(json(data));
  for (const schema of [blobsSchema, fleetSchema, offersSchema]) {
    const found = v.safeParse(schema, document);
    const text = found.success ? JSON.stringify(found.output) : undefined;
    if (text !== undefined) assert.equal(JSON.stringify(v.parse(schema, json(text))), text);
  }
  parseStatusAnnotation(data.toString());
  parseOwnReport(data.toString());
  const served = parseServes(data.toString());
  if (served?.endpoint !== undefined) {
    const { endpoint, bundles } = served;
    const again = parseServes(servesAnnotation({ address: endpoint.host, port: endpoint.port, bundles }));
    assert.deepEqual(again?.endpoint, endpoint);
  }
};

/** Answers of the Kubernetes API. */
const kubernetesAnswers: Target = (data) => {
  const answer = json(data);
  const node = read(() => readNode(answer));
  if (node !== undefined) appliedKeys(node.metadata, 'stickpin', 'labels');
  read(() => readWatchEvent(answer));
};

/** The kubeconfig of a kubelet, or a list of keys. */
const kubelet: Target = (data) => {
  const text = data.toString();
  parseKubeconfig(text, '/etc/kubernetes/kubelet.conf');
  const keys = read(() => parseKeys(text, '/etc/stickpin/fleet.keys'));
  for (const name of keys?.values() ?? []) assert.match(name, /^[a-z0-9][-a-z0-9.]*$/);
};

/** Certificates in DER, each behind its length in two bytes: of a peer, then of authorities. */
const certificates: Target = (data) => {
  const found: X509Certificate[] = [];
  for (let at = 0; at + 2 <= data.length && found.length < 4; ) {
    const end = at + 2 + data.readUInt16BE(at);
    const certificate = certificateIn(data.subarray(at + 2, end));
    if (certificate === undefined) return;
    found.push(certificate);
    at = end;
  }
  const [leaf, ...authorities] = found;
  const verdict = checkPeer(leaf, authorities, NOW);
  if (verdict.kind === 'node') assert(authorities.length > 0 && verdict.node !== '');
  assert.equal(checkKey(leaf, new Map()).kind, 'refused');
};

function certificateIn(der: Buffer): X509Certificate | undefined {
  try {
    return new X509Certificate(der);
  } catch {
    return undefined;
  }
}

/**
 * Behind NUL bytes: a trusted root; a sigstore bundle; what cosign signed; the annotations of its
 * signature.
 */
const signatures: Target = (data) => {
  const [root = '', bundle = '', signed = '', annotations = ''] = parts(data, 4, '\0');
  const subject = Buffer.from('{}');
  const layers = [
    [bundle, 'application/vnd.dev.sigstore.bundle.v0.3+json', undefined],
    [signed, 'application/vnd.dev.cosign.simplesigning.v1+json', json(annotations)],
  ] as const;
  const of = digestOf(subject);
  const documents = new Map([[of, subject]]);
  const keep = (text: string) => {
    const digest = digestOf(text);
    documents.set(digest, Buffer.from(text));
    return digest;
  };
  const [referrer, tagged] = layers.map(([text, mediaType, annotations]) =>
    keep(JSON.stringify({ layers: [{ mediaType, digest: keep(text), annotations }] })),
  );
  if (referrer === undefined || tagged === undefined) return;
  const mediaType = 'application/vnd.oci.image.manifest.v1+json';
  const list = keep(JSON.stringify({ schemaVersion: 2, manifests: [{ mediaType, digest: referrer, size: 1 }] }));
  const name = of.replace(':', '-');
  const attached = { mediaType, size: 1, blobs: [] };
  const found = new SignatureReader(documents).of(of, [
    { tag: name, digest: list, ...attached },
    { tag: `${name}.sig`, digest: tagged, ...attached },
  ]);
  const trust = read(() => new SigstoreRoot(Buffer.from(root), 'root.json'));
  const identity = { oidcIssuer: 'https://accounts.example.com', subjectEmail: 'dev@example.com' };
  for (const one of found.signatures) if (trust !== undefined) read(() => trust.checkIdentity(one, identity));
};

/** What decides which signatures of images are needed. */
const imagePolicy: Target = (data) =>
  withFile(data, async (file) => {
    const policy = await readLater(() => readImagePolicy(file, new AbortController().signal));
    if (policy !== undefined) assert(ruleFor(policy, parseReference('quay.io/a/b:1'), digestOf('')).scope !== '');
  });

export const networkTargets: Readonly<Record<string, Target>> = {
  'registry-request': registryRequest,
  'wire-request': wireRequest,
  'wire-documents': wireDocuments,
  'kubernetes-answers': kubernetesAnswers,
  kubelet,
  certificates,
  signatures,
  'image-policy': imagePolicy,
};

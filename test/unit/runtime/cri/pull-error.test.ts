import { describe, expect, it } from 'vitest';
import type { PullErrorCode } from '../../../../src/ports/runtime.ts';
import { classifyPullError } from '../../../../src/runtime/cri/runtime-error.ts';

const DIGEST_A = `sha256:${'a'.repeat(64)}`;
const DIGEST_B = `sha256:${'b'.repeat(64)}`;
const MIRROR = '127.0.0.1:5577/0123456789abcdef0123456789abcdef/quay.io/coreos/etcd';

/** Texts as the runtimes send them: gRPC code, text, what it must be taken for. */
const table: readonly [string, number, string, PullErrorCode][] = [
  [
    'CRI-O, staging full',
    2,
    'writing blob: storing blob to file "/var/tmp/container_images_storage4290390387/1": write /var/tmp/container_images_storage4290390387/1: no space left on device',
    'runtime/no-space',
  ],
  [
    'CRI-O, storage full while unpacking',
    2,
    `copying system image from manifest list: writing blob: adding layer with blob "${DIGEST_A}": processing tar file(write /usr/bin/chsh: no space left on device): exit status 1`,
    'runtime/no-space',
  ],
  [
    'containerd, content store full',
    2,
    `failed to pull and unpack image "quay.io/coreos/etcd@${DIGEST_A}": failed to copy: failed to send write: write /var/lib/containerd/io.containerd.content.v1.content/ingest/3e5f/data: no space left on device: unknown`,
    'runtime/no-space',
  ],
  [
    'containerd, quota',
    2,
    `failed to pull and unpack image "a": failed to extract layer ${DIGEST_A}: write /var/lib/containerd/x: disk quota exceeded: unknown`,
    'runtime/no-space',
  ],
  [
    'CRI-O, storage read-only',
    2,
    'writing blob: storing blob to file "/var/tmp/container_images_storage1/1": open /var/tmp/container_images_storage1/1: read-only file system',
    'runtime/read-only',
  ],
  [
    'CRI-O, wrong byte (docs/runtime-facts.md, fact 16)',
    2,
    `copying image: writing blob: Digest did not match, expected ${DIGEST_A}, got ${DIGEST_B}`,
    'runtime/digest-mismatch',
  ],
  [
    'CRI-O, manifest with another digest',
    2,
    `initializing source docker://quay.io/coreos/etcd@${DIGEST_A}: manifest does not match provided manifest digest ${DIGEST_A}`,
    'runtime/digest-mismatch',
  ],
  [
    'containerd, wrong byte (docs/runtime-facts.md, fact 24)',
    9,
    `failed to pull and unpack image "docker.io/codercom/code-server:3.9.0": failed commit on ref "layer-${DIGEST_A}": unexpected commit digest ${DIGEST_B}, expected ${DIGEST_A}: failed precondition`,
    'runtime/digest-mismatch',
  ],
  [
    'containerd, wrong length',
    9,
    `failed to pull and unpack image "a": failed commit on ref "layer-${DIGEST_A}": "layer-${DIGEST_A}" failed size validation: 5 != 10: failed precondition`,
    'runtime/digest-mismatch',
  ],
  [
    'CRI-O, our mirror has no such manifest and the upstream is out of reach',
    2,
    `initializing source docker://quay.io/coreos/etcd@${DIGEST_A}: (Mirrors also failed: [${MIRROR}@${DIGEST_A}: reading manifest ${DIGEST_A} in ${MIRROR}: manifest unknown]): quay.io/coreos/etcd@${DIGEST_A}: pinging container registry quay.io: Get "https://quay.io/v2/": dial tcp: lookup quay.io: no such host`,
    'runtime/not-found',
  ],
  [
    'CRI-O, unknown repository',
    2,
    `initializing source docker://${MIRROR}:v1: reading manifest v1 in ${MIRROR}: name unknown: nothing is mirrored under this name`,
    'runtime/not-found',
  ],
  [
    'CRI-O, blob missing',
    2,
    'copying image: parsing image configuration: fetching blob: blob unknown: no source has it',
    'runtime/not-found',
  ],
  [
    'containerd, unknown tag',
    5,
    'failed to pull and unpack image "docker.io/library/redis:alpin": failed to resolve reference "docker.io/library/redis:alpin": docker.io/library/redis:alpin: not found',
    'runtime/not-found',
  ],
  [
    'containerd, blob missing',
    2,
    `failed to pull and unpack image "a": failed to copy: httpReadSeeker: failed open: unexpected status code http://127.0.0.1:5577/v2/x/blobs/${DIGEST_A}?ns=quay.io: 404 Not Found`,
    'runtime/not-found',
  ],
  [
    'CRI-O, policy rejects everything',
    2,
    'Source image rejected: Running image docker://quay.io/coreos/etcd:v1 is rejected by policy.',
    'runtime/policy',
  ],
  [
    'CRI-O, unsigned',
    2,
    'copying system image from manifest list: Source image rejected: A signature was required, but no signature exists',
    'runtime/policy',
  ],
  [
    'CRI-O 1.32 and newer',
    2,
    'SignatureValidationFailed: copying image: Source image rejected: cryptographic signature verification failed',
    'runtime/policy',
  ],
  [
    'CRI-O, media type of a layer (docs/runtime-facts.md, fact 57)',
    2,
    'initializing image from source docker://quay.io/x/it@a: unsupported docker v2s2 media type: "application/octet-stream"; artifact err: image reference: parse manifest: no',
    'runtime/unfit-image',
  ],
  [
    'CRI-O, config of Docker',
    2,
    'parsing image configuration: invalid mixed OCI image with Docker v2s2 config ("application/vnd.docker.container.image.v1+json")',
    'runtime/unfit-image',
  ],
  [
    'CRI-O, index in an index',
    2,
    'copying system image from manifest list: Unexpectedly received a manifest list instead of a manifest for a single image',
    'runtime/unfit-image',
  ],
  [
    'CRI-O, variants by name',
    2,
    'choosing an image from manifest list docker://quay.io/x/it@a: no image found in image index for architecture "amd64", variant "", OS "linux"',
    'runtime/unfit-image',
  ],
  [
    'containerd, layers that it does not know',
    2,
    'failed to pull and unpack image "a": failed to unpack image on snapshotter native: mismatched image rootfs and manifest layers',
    'runtime/unfit-image',
  ],
  [
    'containerd, a layer that it does not know',
    2,
    'failed to pull and unpack image "a": number of layers and diffIDs don\'t match: 1 != 2',
    'runtime/unfit-image',
  ],
  [
    'containerd, variants by name',
    5,
    'failed to pull and unpack image "a": no match for platform in manifest: not found',
    'runtime/unfit-image',
  ],
  ['Docker, media type of a layer', 2, 'unsupported media type application/x-gzip', 'runtime/unfit-image'],
  [
    'Docker, media type of a layer, in quotes',
    2,
    'unsupported media type: "application/vnd.in-toto+json"',
    'runtime/unfit-image',
  ],
  [
    'containerd, a proxy that refuses the request',
    2,
    'failed to pull and unpack image "a": failed to resolve reference "a": unexpected status from HEAD request to https://proxy.example.com/v2/x/manifests/v1: 415 Unsupported Media Type',
    'runtime/pull-failed',
  ],
  [
    'Docker, a proxy that refuses the request',
    2,
    'error parsing HTTP 415 response body: 415 Unsupported Media Type text/html: "<html>"',
    'runtime/pull-failed',
  ],
  ['Docker, too many layers', 2, 'failed to register layer: max depth exceeded', 'runtime/unfit-image'],
  [
    'containerd, no progress (docs/runtime-facts.md, fact 20)',
    1,
    'failed to pull and unpack image "a": failed to copy: httpReadSeeker: failed open: failed to do request: Get "http://127.0.0.1:5577/v2/x": context canceled',
    'runtime/cancelled',
  ],
  [
    'CRI-O, no progress (docs/runtime-facts.md, fact 20)',
    2,
    'writing blob: storing blob to file "/var/tmp/1": context canceled',
    'runtime/cancelled',
  ],
  [
    'grpc-js, no socket',
    14,
    'No connection established. Last error: connect ENOENT /var/run/crio/crio.sock',
    'runtime/unreachable',
  ],
  ['grpc-js, runtime died in mid-call', 14, 'Connection dropped', 'runtime/unreachable'],
  ['grpc-js, our deadline', 4, 'Deadline exceeded after 10.001s,name resolution: 0.003s', 'runtime/unreachable'],
  [
    'containerd, upstream timed out',
    4,
    'failed to pull and unpack image "docker.io/a/b:1": failed to resolve reference "docker.io/a/b:1": failed to do request: Head "https://registry-1.docker.io/v2/a/b/manifests/1": dial tcp 199.96.58.15:443: i/o timeout',
    'runtime/pull-failed',
  ],
  ['containerd without its CRI plugin', 12, 'unknown service runtime.v1.ImageService', 'runtime/unreachable'],
  [
    'CRI-O, mirror and upstream refuse connections',
    2,
    `initializing source docker://quay.io/coreos/etcd@${DIGEST_A}: pinging container registry quay.io: Get "https://quay.io/v2/": dial tcp 10.0.2.15:443: connect: connection refused`,
    'runtime/pull-failed',
  ],
  [
    'containerd, no such host',
    2,
    'failed to pull and unpack image "registry.invalid/a:v0": failed to resolve reference "registry.invalid/a:v0": failed to do request: Head "https://registry.invalid/v2/a/manifests/v0": dial tcp: lookup registry.invalid on 127.0.0.53:53: no such host',
    'runtime/pull-failed',
  ],
  [
    'containerd, transfer broke too often',
    2,
    `failed to pull and unpack image "a": failed to copy: httpReadSeeker: failed open: unexpected status code http://127.0.0.1:5577/v2/x/blobs/${DIGEST_A}: 503 Service Unavailable`,
    'runtime/pull-failed',
  ],
  [
    'CRI-O, transfer broke',
    2,
    'writing blob: storing blob to file "/var/tmp/1": unexpected EOF',
    'runtime/pull-failed',
  ],
];

describe('classifyPullError', () => {
  it.each(table)('%s', (_title, grpcCode, text, code) => {
    expect(classifyPullError({ grpcCode, text })).toBe(code);
  });
});

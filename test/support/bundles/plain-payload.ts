const digest = `sha256:${'ab'.repeat(32)}`;

/** The members that each payload has, as a document. */
export const plainPayload = {
  schemaVersion: 1,
  name: 'ocp',
  version: '4.13.7',
  arch: 'amd64',
  sequence: 3,
  created: '2026-01-01T00:00:00Z',
  index: { digest, size: 10 },
  contents: { digest, size: 10 },
  totals: { images: 1, blobs: 3, sizeBytes: 100, diskBytes: 4096, inodes: 1 },
};

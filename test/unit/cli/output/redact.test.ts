import { describe, expect, it } from 'vitest';
import { redacted } from '../../../../src/cli/output/redact.ts';

describe('text without secrets', () => {
  it.each([
    ['pull http://127.0.0.1:5317/0123456789abcdef/v2/', 'pull http://127.0.0.1:5317/<removed>/v2/'],
    ['proxy=http://bob:hunter2@proxy.example.com:3128/x', 'proxy=http://<removed>@proxy.example.com:3128/x'],
    ['Authorization: Bearer abc.def-ghi', 'Authorization: <removed>'],
    ['"authorization":"Basic Ym9iOmh1bnRlcg==","x":1', '"authorization":"<removed>","x":1'],
    ['login --password=hunter2 --user bob', 'login --password=<removed> --user bob'],
    ['{"registry_token": "s3cret", "port": 1}', '{"registry_token": "<removed>", "port": 1}'],
    ['STICKPIN_PASSPHRASE=open sesame', 'STICKPIN_PASSPHRASE=<removed> sesame'],
    ['-----BEGIN PRIVATE KEY-----\nMC4\n-----END PRIVATE KEY-----\n', '<removed>\n'],
  ])('%j', (text, shown) => {
    expect(redacted(text, ['0123456789abcdef'])).toBe(shown);
  });

  it.each([
    'quay.io/ocp/etcd@sha256:0123 is pinned',
    'GET http://127.0.0.1:5317/v2/ 200',
    'no secret is known',
    '"keyId":"5f0c1d"',
    '-----BEGIN PUBLIC KEY-----',
  ])('leaves %j', (text) => {
    expect(redacted(text, [''])).toBe(text);
  });
});

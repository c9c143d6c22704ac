import { readdirSync, readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { redacted, redactedFile } from '../../../../../src/cli/output/redact.ts';

const SCREENS = new URL('../screens/', import.meta.url);

describe('text without secrets', () => {
  it.each([
    ['pull http://127.0.0.1:5317/0123456789abcdef/v2/', 'pull http://127.0.0.1:5317/<removed>/v2/'],
    ['proxy=http://bob:hunter2@proxy.example.com:3128/x', 'proxy=http://<removed>@proxy.example.com:3128/x'],
    ['http://bob:hun/ter@2@proxy.example.com/x', 'http://<removed>@proxy.example.com/x'],
    ['Authorization: Bearer abc.def-ghi', 'Authorization: <removed>'],
    ['sent header bearer abc.def-ghi to it', 'sent header bearer <removed> to it'],
    ['Cookie: a=b; c=d', 'Cookie: <removed>'],
    ['"authorization":"Basic Ym9iOmh1bnRlcg==","x":1', '"authorization":"<removed>","x":1'],
    ['a:\n  password: |\n    open\n\n    sesame\n  user: bob', 'a:\n  password: |\n    <removed>\n  user: bob'],
    ['- registryToken: >-\n    hunter2\n    more', '- registryToken: >-\n  <removed>'],
    ['token: &t !!binary |2- # made by hand\n    aHVu\nuser: bob', 'token: <removed>\n  <removed>\nuser: bob'],
    ['note: |\n  open\npassword: |\nuser: bob', 'note: |\n  open\npassword: |\nuser: bob'],
    ['login --password=hunter2 --user bob', 'login --password=<removed> --user bob'],
    ['k3s agent --token K10abc::server:hunter2 --node-name n1', 'k3s agent --token <removed> --node-name n1'],
    ['["k3s","--token","hunter2","--debug"]', '["k3s","--token","<removed>","--debug"]'],
    ['skopeo copy --src-creds bob:hunter2 --all', 'skopeo copy --src-creds <removed> --all'],
    ['curl -u bob:hunter2 http://h/', 'curl -u <removed> http://h/'],
    ['HTTPS_PROXY=bob:hunter2@proxy.example.com:3128', 'HTTPS_PROXY=<removed>@proxy.example.com:3128'],
    [
      'proxy http://bob:1/hunt@er@proxy.example.com:3128 failed',
      'proxy http://<removed>@proxy.example.com:3128 failed',
    ],
    ['host=db pass=hunter2 port=1', 'host=db pass=<removed> port=1'],
    ['Server=db;Uid=bob;Pwd=hunter2', 'Server=db;Uid=bob;Pwd=<removed>'],
    ['docker login -u bob -p hunter2 quay.example.com', 'docker login -u bob -p <removed> quay.example.com'],
    ['podman login -phunter2 quay.example.com', 'podman login -p<removed> quay.example.com'],
    ['echo hunter2 | docker login --password-stdin h', 'echo <removed>| docker login --password-stdin h'],
    ['docker login --password-stdin h <<< hunter2', 'docker login --password-stdin h <<< <removed>'],
    ['machine h login bob password hunter2', 'machine h login bob password <removed>'],
    ['machine h\n  login bob\n  password hunter2\n', 'machine h\n  login bob\n  password <removed>\n'],
    ['<user>bob</user><password>hunter2</password>', '<user>bob</user><password><removed></password>'],
    ['Password:\nhunter2\nLast login', 'Password:\n<removed>\nLast login'],
    ['spec:\n  token:\n    YWJj\n  user: bob', 'spec:\n  token:\n    <removed>\n  user: bob'],
    ['credentials:\n  name: bob\n  keys: 1', 'credentials:\n  name: bob\n  keys: 1'],
    ['aws_secret_access_key = abc/def+g', 'aws_secret_access_key = <removed>'],
    ['{"registry_token": "s3cret", "port": 1}', '{"registry_token": "<removed>", "port": 1}'],
    ['{"auth": "Ym9iOmh1bnRlcg=="}', '{"auth": "<removed>"}'],
    ['"password": "open sesame", "port": 1', '"password": "<removed>", "port": 1'],
    ['msg="got {\\"password\\":\\"open sesame\\",\\"a\\":1}"', 'msg="got {\\"password\\":\\"<removed>\\",\\"a\\":1}"'],
    ['{"key":"DB_PASSWORD","value":"x y"}', '{"key":"DB_PASSWORD","value":"<removed>"}'],
    ['    client-key-data: LS0tLS1', '    client-key-data: <removed>'],
    ['STICKPIN_PASSPHRASE=open sesame', 'STICKPIN_PASSPHRASE=<removed>'],
    ['STICKPIN_PASSPHRASE=open sesame HOME=/root', 'STICKPIN_PASSPHRASE=<removed> HOME=/root'],
    ['-----BEGIN PRIVATE KEY-----\nMC4\n-----END PRIVATE KEY-----\n', '<removed>\n'],
    [`a: -----BEGIN EC PRIVATE KEY-----\na: ${'M'.repeat(64)}\na: MC5=\na: is the end`, 'a: <removed>\na: is the end'],
    [`a: ${'M'.repeat(64)}\na: MC5=\na: -----END RSA PRIVATE KEY-----\nb is here`, '<removed>\nb is here'],
  ])('%j', (text, shown) => {
    expect(redacted(text, ['0123456789abcdef'])).toBe(shown);
  });

  it.each([
    'quay.io/ocp/etcd@sha256:0123 is pinned',
    'docker://busybox@sha256:0123 docker://registry:5000/busybox@sha256:0123',
    'GET http://127.0.0.1:5317/v2/ 200',
    'no secret is known',
    '"keyId":"5f0c1d"',
    '-----BEGIN PUBLIC KEY-----',
    'www-authenticate: Bearer realm="https://h/token",service="h"',
    'automountServiceAccountToken: false',
    'kubelet --tls-private-key-file=/etc/k.key --client-ca-file=/etc/ca.crt',
    'MountVolume.SetUp failed for volume "a" : secret "b" not found',
    'PWD=/root',
  ])('leaves %j', (text) => {
    expect(redacted(text, [''])).toBe(text);
  });

  it.each(readdirSync(SCREENS))('leaves the screen %s', (file) => {
    const text = readFileSync(new URL(file, SCREENS), 'utf8');
    expect(redacted(text)).toBe(text);
  });
});

describe('documents', () => {
  it('stay JSON', () => {
    const document = {
      keyId: 'k1',
      events: [{ message: 'login with password=open sesame', argv: ['a', '--token', 'x y', 'b'], token: 'x', n: 1 }],
      env: [{ name: 'DB_PASSWORD', value: 'x' }],
    };
    expect(JSON.parse(redactedFile(JSON.stringify(document)))).toEqual({
      keyId: 'k1',
      events: [
        {
          message: 'login with password=<removed>',
          argv: ['a', '--token', '<removed>', 'b'],
          token: '<removed>',
          n: 1,
        },
      ],
      env: [{ name: 'DB_PASSWORD', value: '<removed>' }],
    });
  });

  it('lose what is nested without an end', () => {
    const deep = `${'['.repeat(20_000)}"hush"${']'.repeat(20_000)}`;
    expect(redactedFile(deep)).toMatch(/^\[{64}"<removed>"\]{64}\n$/);
  });
});

const WORD = fc
  .string({
    unit: fc.constantFrom(...'abcdefghijkmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.~+/!$%^*,;'.split('')),
  })
  .map((text) => `Zq${text}9`);
const PHRASE = fc.array(WORD, { minLength: 1, maxLength: 3 }).map((words) => words.join(' '));
const base64 = (text: string) => Buffer.from(text).toString('base64');

/** Where a secret of more than one word may stand. */
const FORMS_OF_PHRASES: readonly ((secret: string) => string)[] = [
  (secret) => `STICKPIN_PASSPHRASE=${secret}`,
  (secret) => `Nov 24 n1 k3s[1]: DB_PASS=${secret}`,
  (secret) => `"password": ${JSON.stringify(secret)}, "port": 1`,
  (secret) => `{'password': '${secret}'}`,
  (secret) => `msg=${JSON.stringify(JSON.stringify({ password: secret, port: 1 }))}`,
  (secret) => JSON.stringify(JSON.stringify({ deep: JSON.stringify({ registryToken: secret }) })),
  (secret) => JSON.stringify({ env: [{ name: 'API_KEY', value: secret }] }),
  (secret) => JSON.stringify(['k3s', '--agent-token', secret]),
  (secret) => `  password: ${secret}\n  user: bob`,
  (secret) => `aws_secret_access_key = ${secret}`,
  (secret) => `Authorization: Bearer ${secret}`,
  (secret) => `{"auth":"${secret}"}`,
  (secret) => `skopeo copy --dest-password "${secret}" docker://a dir:b`,
];

/** Where a secret of one word may stand. */
const FORMS_OF_WORDS: readonly ((secret: string) => string)[] = [
  ...FORMS_OF_PHRASES,
  (secret) => `k3s agent --token K10${'0a'.repeat(32)}::server:${secret} --server https://h:6443`,
  (secret) => `K10${'0a'.repeat(32)}::server:${secret}`,
  (secret) => `k3s agent --token ${secret}`,
  (secret) => `got bearer ${base64(secret)}`,
  (secret) => `got Basic ${base64(`bob:${secret}`)}`,
  (secret) => `proxy is http://bob:${secret}@proxy.example.com:3128/x`,
  (secret) => `curl -u bob:${secret} https://h`,
  (secret) => `client-key-data: ${base64(secret)}`,
  (secret) => `-----BEGIN RSA PRIVATE KEY-----\n${base64(secret)}\n-----END RSA PRIVATE KEY-----`,
  (secret) => `j: -----BEGIN PRIVATE KEY-----\nj: ${base64(secret)}\nj: and so on`,
  (secret) => `j: ${base64(secret)}\nj: -----END PRIVATE KEY-----`,
  (secret) => base64(`-----BEGIN PRIVATE KEY-----\n${secret}\n-----END PRIVATE KEY-----`),
];

const AROUND = fc.constantFrom('', 'a line before\n', 'time="x" level=info ');

describe('a secret in any of these forms', () => {
  it.each([
    ['of words', FORMS_OF_WORDS, WORD],
    ['of phrases', FORMS_OF_PHRASES, PHRASE],
  ] as const)('never survives: forms %s', (_name, forms, secrets) => {
    const placed = fc.tuple(AROUND, fc.constantFrom(...forms), secrets);
    fc.assert(
      fc.property(placed, ([before, form, secret]) => {
        const text = `${before}${form(secret)}\nthe line after`;
        for (const word of secret.split(' ')) {
          expect(redacted(text)).not.toContain(word);
          expect(redacted(text)).not.toContain(base64(word));
          expect(redactedFile(form(secret))).not.toContain(word);
        }
        expect(redacted(text)).toContain('the line after');
      }),
      { numRuns: 1000 },
    );
  });

  it('takes little time with long words', () => {
    const text = `${'a-b_'.repeat(10_000)} ${'x.'.repeat(10_000)}password=hunter2 ${'A'.repeat(50_000)}`;
    expect(redacted(text).includes('hunter2')).toBe(false);
    const block = `password: |\n${'\n'.repeat(20_000)}${'  hunter2\n\n'.repeat(20_000)}x`;
    expect(redacted(block)).toBe('password: |\n  <removed>\n\nx');
  });
});

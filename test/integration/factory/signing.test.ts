import { spawn } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { parseEnvelope } from '../../../src/bundle/format/dsse.ts';
import { makeSampleBundle, type SampleKey, sampleKey } from '../../support/bundles/sample-bundle.ts';
import { blocksBelow, runBlocks, stickpinOnPath } from '../../support/docs/run-blocks.ts';
import { eventually } from '../../support/eventually.ts';
import { entriesBelow } from '../../support/files/entries-below.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { have, program } from '../../support/requirements.ts';
import { runCommand } from '../../support/run-command.ts';

const PASSPHRASE = 'correct horse';
let programs: string;
const root = folderForEach();
let bundle: string;
beforeAll(async () => {
  programs = await stickpinOnPath(mkdtempSync(join(tmpdir(), 'stickpin-program-')));
});
afterAll(() => rmSync(programs, { recursive: true, force: true }));
beforeEach(async () => {
  bundle = join(root, 'bundle');
  const made = await makeSampleBundle({ dir: root, keys: [] });
  rmSync(bundle, { recursive: true, force: true });
  await runBlocks([`mv ${made.path} ${bundle}`], { directory: root, programs });
});

const at = (name: string) => join(root, name);
const envelopeBytes = () => readFileSync(join(bundle, 'bundle.dsse.json'));
const signers = () => parseEnvelope(envelopeBytes()).signatures.map(({ keyId }) => keyId);
const verify = (keys: string) => runCommand(['bundle', 'verify', bundle, '--keys', keys]);

/** Writes the key as an encrypted file. */
function encrypt(key: SampleKey): string {
  const file = at(`${key.name}.enc.key`);
  const pem = key.privateKey.key.export({
    type: 'pkcs8',
    format: 'pem',
    cipher: 'aes-256-cbc',
    passphrase: PASSPHRASE,
  });
  writeFileSync(file, pem);
  return file;
}

/** Runs a shell command at a terminal of its own. */
function atTerminal(command: string) {
  const terminal = spawn('script', ['--quiet', '--return', '--flush', '--command', command, '/dev/null'], {
    env: { ...process.env, NO_COLOR: '1' },
  });
  let shown = '';
  terminal.stdout.on('data', (chunk: Buffer) => {
    shown += chunk.toString();
  });
  return {
    shown: () => shown,
    type: (text: string) => terminal.stdin.write(text),
    ended: new Promise((resolve) => terminal.on('close', resolve)),
  };
}

/** Resolves when the process whose number is in the file has ended. */
async function hasEnded(file: string): Promise<void> {
  const pid = readFileSync(file, 'utf8').trim();
  const state = () => (existsSync(`/proc/${pid}/stat`) ? readFileSync(`/proc/${pid}/stat`, 'utf8').split(' ')[2] : 'Z');
  await eventually(() => expect(state()).toBe('Z'));
}

describe.runIf(have('openssl'))('an encrypted private key', () => {
  const key = sampleKey();
  const sign = (args: string[], env = {}) =>
    runCommand(['bundle', 'sign', bundle, '--key', encrypt(key), ...args], { env });

  it('signs with a passphrase from a file or from the environment, and the file counts first', async () => {
    writeFileSync(at('right'), `${PASSPHRASE}\nsecond line\n`);
    writeFileSync(at('wrong'), 'wrong\n');
    expect((await sign(['--passphrase-file', at('right')], { STICKPIN_PASSPHRASE: 'wrong' })).exitCode).toBe(0);
    expect((await sign([], { STICKPIN_PASSPHRASE: PASSPHRASE })).exitCode).toBe(0);
    const refused = await sign(['--passphrase-file', at('wrong')], { STICKPIN_PASSPHRASE: PASSPHRASE });
    expect(refused).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('the passphrase is wrong') });
    expect(signers()).toEqual([key.privateKey.keyId]);
  });

  it('is refused, with what to do, where nobody can be asked', async () => {
    const { exitCode, stderr } = await sign([]);
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/is encrypted, .* give --passphrase-file FILE, or set STICKPIN_PASSPHRASE\n$/);
    expect(signers()).toEqual([]);
  });

  it.each([
    ['an empty first line', '\nsecret\n', /its first line is empty/],
    ['too much', 'x'.repeat(5000), /more than 4096 bytes/],
    ['nothing', undefined, /can't be read/],
  ])('a passphrase file with %s is wrong usage', async (_name, text, message) => {
    if (text !== undefined) writeFileSync(at('passphrase'), text);
    const { exitCode, stderr } = await sign(['--passphrase-file', at('passphrase')]);
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(message);
  });

  it.each(['', 'true | '])('is asked for at a terminal, which does not show what is typed (%s)', async (before) => {
    const terminal = atTerminal(`${before}${join(programs, 'stickpin')} bundle sign ${bundle} --key ${encrypt(key)}`);
    const questions = () => [...terminal.shown().matchAll(/Passphrase of /g)].length;
    await eventually(() => expect(questions()).toBe(1));
    terminal.type('wrong\r');
    await eventually(() => expect(questions()).toBe(2));
    terminal.type(`oops\u0015${PASSPHRASE}x\u007f\r`);
    expect(await terminal.ended).toBe(0);
    expect(terminal.shown()).toContain('That is not the passphrase. Try again.');
    expect(terminal.shown()).toContain('is signed by');
    expect(terminal.shown()).not.toMatch(/horse|wrong\r|oops/);
    expect(signers()).toEqual([key.privateKey.keyId]);
  });

  it.each(['', 'true | '])('can be interrupted while it asks (%s)', async (before) => {
    const terminal = atTerminal(`${before}${join(programs, 'stickpin')} bundle sign ${bundle} --key ${encrypt(key)}`);
    await eventually(() => expect(terminal.shown()).toContain('Passphrase of '));
    terminal.type('\u0003');
    expect(await terminal.ended).toBe(1);
    expect(terminal.shown()).toContain('stickpin: interrupted');
    expect(signers()).toEqual([]);
  });

  it('is used as docs/factory.md shows', async () => {
    writeFileSync(at('passphrase'), `${PASSPHRASE}\n`);
    const blocks = await blocksBelow('docs/factory.md', '### A private key with a passphrase');
    expect(blocks.join('')).toContain('-aes256');
    // At a desk OpenSSL asks for the passphrase.
    const unattended = blocks.map((block) => block.replace('-aes256', '-aes256 -passout file:passphrase'));
    await runBlocks(unattended, { directory: root, programs });
    expect(existsSync(at('factory-2026.key'))).toBe(false);
    expect(signers()).toHaveLength(1);
    expect((await verify(root)).exitCode).toBe(0);
  });
});

describe.runIf(have('openssl'))('a command that signs', () => {
  const [ed25519, p256] = [sampleKey('ed25519', 'ed25519'), sampleKey('p256', 'ecdsa-p256')];
  const commands = {
    // OpenSSL 3.0 signs with Ed25519 only what it can seek in.
    ed25519: (file: string) => `cat > ${at('m')} && openssl pkeyutl -sign -rawin -inkey ${file} -in ${at('m')}`,
    p256: (file: string) => `openssl dgst -sha256 -sign ${file}`,
  };

  beforeEach(() => {
    mkdirSync(at('keys'));
    for (const key of [ed25519, p256]) {
      writeFileSync(at(`${key.name}.key`), key.privatePem);
      writeFileSync(at(`keys/${key.name}.pub`), key.publicPem);
    }
  });

  const sign = (name: 'ed25519' | 'p256', command: string, ...more: string[]) =>
    runCommand(['bundle', 'sign', bundle, '--signer', command, '--signer-key', at(`keys/${name}.pub`), ...more]);

  it.each(['ed25519', 'p256'] as const)('signs with %s', async (name) => {
    const { exitCode, stdout } = await sign(name, commands[name](at(`${name}.key`)));
    expect(exitCode).toBe(0);
    expect(stdout).toContain('it has 1 signature now');
    expect((await verify(at('keys'))).stdout).toContain(`signature by ${name} ok`);
  });

  it('signs a new bundle, beside a key in a file, and all volumes at once', async () => {
    const volumes = at('volumes');
    const log = at('log');
    const args = ['--name', 'ocp', '--version', '1.0.0', '--arch', 'amd64', '--sequence', '1', '--out', volumes];
    writeFileSync(at('advisory'), '{"version": "0.9.0", "reason": "none"}');
    const twice = ['--signer', `echo run >> ${log}; ${commands.p256(at('p256.key'))}`];
    const made = await runCommand([
      ...['bundle', 'create', ...args, '--advisory', at('advisory'), '--volume-size', '1GiB'],
      ...[...twice, '--signer-key', at('keys/p256.pub'), '--key', at('ed25519.key')],
    ]);
    expect(made).toMatchObject({ exitCode: 0, stderr: '' });
    await runBlocks(['cp -r volumes/1 volumes/2'], { directory: root, programs });
    const resigned = await runCommand(['bundle', 'sign', volumes, ...twice, '--signer-key', at('keys/p256.pub')]);
    expect(resigned.stdout).toMatch(/1 to .*2 are signed by .*; they have 2 signatures now/);
    expect(readFileSync(log, 'utf8')).toBe('run\nrun\n');
    const [one, two] = ['1', '2'].map((volume) => readFileSync(join(volumes, volume, 'bundle.dsse.json')));
    expect(one).toEqual(two);
  });

  it.each([
    ['another key', () => commands.p256(at('other.key')), /does the command use the private key of the file/],
    ['another message', () => `printf x | ${commands.p256(at('p256.key'))}`, /not a signature by key/],
    ['base64', () => `${commands.p256(at('p256.key'))} | base64`, /it gave text/],
    ['r and s', () => 'head -c 64 /dev/zero', /--signature-format openssl/],
    ['nothing', () => 'cat > /dev/null', /wrote nothing to its standard output/],
    ['too much', () => 'cat /dev/zero', /more than 4096 bytes/],
    ['an exit code', () => 'cat > /dev/null; echo no card >&2; exit 7', /exit code 7: no card/],
    [
      'a wrong PIN',
      () => "printf 'error: C_Login failed: rv = CKR_PIN_INCORRECT (0xa0)\\nAborting.\\n' >&2; exit 1",
      /exit code 1: the PIN of the token is wrong \(CKR_PIN_INCORRECT\); check it before the next try/,
    ],
    ['its end by a signal', () => 'kill -KILL $$', /ended with SIGKILL/],
    ['an unknown program', () => '/none/sign', /exit code 127: .*not found/],
  ])('that gives %s signs nothing', async (_name, command, message) => {
    writeFileSync(at('other.key'), sampleKey('other', 'ecdsa-p256').privatePem);
    const before = envelopeBytes();
    const { exitCode, stderr } = await sign('p256', command());
    expect(stderr).toMatch(message);
    expect(stderr).toMatch(/; nothing was signed\n$/);
    expect(exitCode).toBe(1);
    expect(envelopeBytes()).toEqual(before);
  });

  it('is killed with its children after its time', async () => {
    const command = `sleep 1000 & echo $! > ${at('pid')}; wait`;
    const { exitCode, stderr } = await sign('p256', command, '--signer-timeout', '2');
    expect(exitCode).toBe(1);
    expect(stderr).toContain('gave no signature within 2 s and was stopped; --signer-timeout gives it more time');
    await hasEnded(at('pid'));
  });

  describe.each(['', 'true | '])('at a terminal (%s)', (before) => {
    const signAtTerminal = (command: string, ...more: string[]) => {
      writeFileSync(at('signer'), command);
      const options = ['--signer', `'sh ${at('signer')}'`, '--signer-key', at('keys/p256.pub'), ...more];
      return atTerminal(`${before}${join(programs, 'stickpin')} bundle sign ${bundle} ${options.join(' ')}`);
    };

    it('asks for a PIN there', async () => {
      const ask = 'printf "PIN? " > /dev/tty; read pin < /dev/tty; test "$pin" = 1234 || exit 3';
      const terminal = signAtTerminal(`${ask}; ${commands.p256(at('p256.key'))}`);
      await eventually(() => expect(terminal.shown()).toContain('PIN? '));
      terminal.type('1234\r');
      expect(await terminal.ended).toBe(0);
      expect(signers()).toEqual([p256.privateKey.keyId]);
    });

    it('is killed with its children after its time', async () => {
      // The end of this terminal alone must not end it.
      const child = `nohup sleep 1000 > /dev/null 2>&1 & echo $! > ${at('pid')}; wait`;
      const terminal = signAtTerminal(child, '--signer-timeout', '2');
      expect(await terminal.ended).toBe(1);
      expect(terminal.shown()).toMatch(/gave\s+no\s+signature\s+within\s+2\s+s/);
      await hasEnded(at('pid'));
    });
  });

  it('leaves no bundle behind when it fails during bundle create', async () => {
    writeFileSync(at('advisory'), '{"version": "0.9.0", "reason": "none"}');
    const named = ['--name', 'ocp', '--version', '1.0.0', '--arch', 'amd64', '--sequence', '1'];
    const signer = ['--signer', 'exit 1', '--signer-key', at('keys/p256.pub')];
    mkdirSync(at('out'));
    const out = join(at('out'), 'bundle');
    const made = await runCommand([
      ...['bundle', 'create', ...named, '--out', out, '--advisory', at('advisory'), ...signer],
    ]);
    expect(made.exitCode).toBe(1);
    expect(entriesBelow(at('out'))).toEqual([]);
  });

  it.each([
    ['without its public key', ['--signer', 'x'], /--signer is given 1 times and --signer-key 0 times/],
    ['that is empty', ['--signer', ' ', '--signer-key', 'keys/p256.pub'], /--signer is empty/],
    ['beside a key', ['--signer', 'x', '--signer-key', 'keys/p256.pub', '--key', 'p256.key'], /more than one key/],
    ['that is not there', [], /no key is given/],
  ])('%s is wrong usage of bundle sign', async (_name, args, message) => {
    const absolute = args.map((arg) => (/^(keys\/|p256)/.test(arg) ? at(arg) : arg));
    const { exitCode, stderr } = await runCommand(['bundle', 'sign', bundle, ...absolute]);
    expect(stderr).toMatch(message);
    expect(exitCode).toBe(2);
  });
});

const pkcs11 = program('pkcs11-tool', 'apt-get install opensc');
const softhsm = program('softhsm2-util', 'apt-get install softhsm2');
describe.runIf(have('openssl', pkcs11, softhsm))('a key in SoftHSM', () => {
  it('signs as docs/factory.md shows, and Ed25519 only short messages', async () => {
    mkdirSync(at('tokens'));
    writeFileSync(at('softhsm2.conf'), `directories.tokendir = ${at('tokens')}\nlog.level = ERROR\n`);
    copyFileSync('docs/examples/sign-with-pkcs11', at('sign-with-pkcs11'));
    const env = { SOFTHSM2_CONF: at('softhsm2.conf'), PIN: '1234', SO_PIN: '5678' };
    const blocks = await blocksBelow('docs/factory.md', '#### With PKCS#11');
    expect(blocks).toHaveLength(2);
    const tool = 'pkcs11-tool --module $PKCS11 --token-label factory --login --pin env:PIN';
    // What the page says about Ed25519. A newer OpenSC may mend it; then the page is to be changed.
    const limit = [
      `${tool} --keypairgen --key-type EC:edwards25519 --label ed --id 02`,
      `head -c 1024 /dev/zero | ${tool} --sign --mechanism EDDSA --id 02 --output-file short`,
      `! head -c 1025 /dev/zero | ${tool} --sign --mechanism EDDSA --id 02 --output-file long`,
    ];
    await runBlocks([...blocks, ...limit], { directory: root, programs, env });
    mkdirSync(at('keys'));
    copyFileSync(at('release.pub'), at('keys/release.pub'));
    expect((await verify(at('keys'))).stdout).toContain('signature by release ok');
    expect(readFileSync(at('short'))).toHaveLength(64);
  });
});

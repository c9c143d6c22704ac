import { open } from 'node:fs/promises';
import type { Command } from 'commander';
import { bundleError } from '../../bundle/bundle-error.ts';
import { isEncryptedKey, type PrivateKey, parsePrivateKey, parsePublicKey } from '../../bundle/keys/keys.ts';
import { readKeyFile } from '../../bundle/keys/trust.ts';
import type { RemoteKey, SigningKey } from '../../factory/payload/sign-envelope.ts';
import { AppError, FaultList, reasonOf } from '../../platform/app-error.ts';
import type { CommandContext } from './command-context.ts';
import { collect, numberOption } from './option-values.ts';

export interface SigningOptions {
  readonly key: readonly string[];
  readonly passphraseFile?: string;
  readonly signer: readonly string[];
  readonly signerKey: readonly string[];
  /** The limit in seconds. */
  readonly signerTimeout: number;
}

const PASSPHRASE = 'STICKPIN_PASSPHRASE';
const MAX_PASSPHRASE_BYTES = 4096;
/** How often a person may type a wrong passphrase. */
const ATTEMPTS = 3;

export function addSigningOptions(command: Command, keys: 'one' | 'several'): Command {
  const repeated = keys === 'one' ? '' : '; may be repeated';
  return command
    .option('--key <file>', `sign with this private key (PKCS#8 PEM, may be encrypted)${repeated}`, collect, [])
    .option(
      '--passphrase-file <file>',
      `file whose first line is the passphrase of encrypted keys; default: ${PASSPHRASE} of the environment, or a question at the terminal`,
    )
    .option(
      '--signer <command>',
      `let this shell command sign, as with a key in a hardware module: it reads the message on stdin and writes the bytes of the signature to stdout${repeated}`,
      collect,
      [],
    )
    .option('--signer-key <file>', 'the public key (.pub) of --signer; one for each, in the same order', collect, [])
    .option('--signer-timeout <seconds>', 'stop the command of --signer after this time', seconds, 60);
}

/**
 * Reads the keys of `--key`, then those of `--signer`, in order. Prompts for passphrases.
 * @param mayAsk false: keys whose passphrase is not given are left out
 * @throws AppError `bundle/option`, `bundle/key-file`, `bundle/passphrase` (`reject`)
 */
export async function readSigningKeys(
  options: SigningOptions,
  context: CommandContext,
  mayAsk = true,
): Promise<SigningKey[]> {
  const { key, signer, signerKey } = options;
  const faults = new FaultList();
  if (signer.length !== signerKey.length) {
    faults.add(
      bundleError(
        'bundle/option',
        `--signer is given ${signer.length} times and --signer-key ${signerKey.length} times: give the public key of each --signer, so that its signature can be checked`,
      ),
    );
  }
  const passphrase = await faults.of(() => givenPassphrase(options, context));
  const keys: (SigningKey | undefined)[] = [];
  for (const path of key) keys.push(await faults.of(() => readPrivateKey(path, passphrase, mayAsk, context)));
  for (const [at, command] of signer.length === signerKey.length ? signer.entries() : []) {
    keys.push(await faults.of(() => readRemoteKey(command, signerKey[at] ?? '', options, context)));
  }
  faults.throwAny();
  return keys.filter((one) => one !== undefined);
}

async function readRemoteKey(
  command: string,
  keyFile: string,
  { signerTimeout }: SigningOptions,
  { signal, readSecret }: CommandContext,
): Promise<RemoteKey> {
  if (command.trim() === '')
    throw bundleError('bundle/option', '--signer is empty: give a command that signs its standard input');
  const { runSigner } = await import('../../factory/payload/sign-envelope.ts');
  const publicKey = parsePublicKey(await readKeyFile(keyFile, signal), keyFile);
  const signer = { command, timeoutMs: signerTimeout * 1000, isInteractive: readSecret !== undefined };
  return { ...publicKey, signRemotely: (message, abort) => runSigner(signer, message, abort) };
}

async function readPrivateKey(
  path: string,
  passphrase: string | undefined,
  mayAsk: boolean,
  { signal, readSecret, stderr }: CommandContext,
): Promise<PrivateKey | undefined> {
  const pem = await readKeyFile(path, signal);
  if (!isEncryptedKey(pem) || passphrase !== undefined) return parsePrivateKey(pem, path, passphrase);
  if (!mayAsk) return undefined;
  if (readSecret === undefined) {
    throw bundleError(
      'bundle/passphrase',
      `key file ${path} is encrypted, and there is no terminal to ask for its passphrase: give --passphrase-file FILE, or set ${PASSPHRASE}`,
    );
  }
  for (let attempt = 1; ; attempt += 1) {
    const typed = await readSecret(`Passphrase of ${path}:`, signal);
    try {
      return parsePrivateKey(pem, path, typed);
    } catch (error) {
      const isWrong = error instanceof AppError && error.code === 'bundle/passphrase';
      if (!isWrong || typed === undefined || attempt === ATTEMPTS) throw error;
      stderr('That is not the passphrase. Try again.\n');
    }
  }
}

async function givenPassphrase(
  { passphraseFile }: SigningOptions,
  { env, signal }: CommandContext,
): Promise<string | undefined> {
  if (passphraseFile === undefined) return env[PASSPHRASE];
  const text = await readSmallFile(passphraseFile, signal);
  const [line = ''] = text.split(/\r?\n/);
  if (line === '') throw bundleError('bundle/option', `--passphrase-file ${passphraseFile}: its first line is empty`);
  return line;
}

/** The file may be a pipe, as of `<(pass show stickpin)`. */
async function readSmallFile(path: string, signal: AbortSignal): Promise<string> {
  try {
    const file = await open(path, 'r');
    try {
      const bytes: Buffer[] = [];
      let sizeBytes = 0;
      for await (const chunk of file.createReadStream({ autoClose: false, signal })) {
        bytes.push(chunk as Buffer);
        sizeBytes += (chunk as Buffer).length;
        if (sizeBytes > MAX_PASSPHRASE_BYTES)
          throw bundleError('bundle/option', `it has more than ${MAX_PASSPHRASE_BYTES} bytes`);
      }
      return Buffer.concat(bytes).toString('utf8');
    } finally {
      await file.close();
    }
  } catch (cause) {
    signal.throwIfAborted();
    throw bundleError('bundle/option', `--passphrase-file ${path} can't be read: ${reasonOf(cause)}`, { cause });
  }
}

const seconds = numberOption(/^[0-9]{1,4}$/, 'It must be a whole number of seconds, 1 to 3600.', 1, 3600);

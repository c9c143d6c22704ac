import { constants, createPrivateKey, X509Certificate } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { createSecureContext, type SecureContext, type SecureContextOptions } from 'node:tls';
import { reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { fleetError } from '../trouble.ts';
import { nodeOf, subjectText } from './check-peer.ts';
import { findIdentity, type IdentitySettings, type IdentityText } from './find-identity.ts';

export interface Identity {
  /** The name of the own Node. */
  readonly node: string;
  readonly authorities: readonly X509Certificate[];
  /** TLS 1.3 only, without tickets. */
  readonly options: SecureContextOptions;
  /** For the end that calls. */
  readonly context: SecureContext;
}

export interface IdentityKeeper {
  /** Undefined until the files can be used. */
  current(): Identity | undefined;
  /** Reads changed files again. Errors are logged. */
  refresh(signal: AbortSignal): Promise<void>;
  /** Refreshes every 10 s until `signal` aborts. */
  run(signal: AbortSignal): Promise<void>;
}

export interface IdentityKeeperOptions {
  readonly settings: IdentitySettings;
  readonly clock: Clock;
  readonly log: Log;
  /** For tests; default `/`. */
  readonly root?: string;
}

/** Kubelets renew their certificates hours before they end. */
const REFRESH_MS = 10_000;

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

interface Keeper extends IdentityKeeperOptions {
  identity?: Identity | undefined;
  files: readonly string[];
  seen?: string | undefined;
  /** Was logged last. */
  trouble?: string | undefined;
}

export function createIdentityKeeper(options: IdentityKeeperOptions): IdentityKeeper {
  const keeper: Keeper = { ...options, files: [] };
  return {
    current: () => keeper.identity,
    refresh: (signal) => refresh(keeper, signal),
    run: async (signal) => {
      while (!signal.aborted) {
        await refresh(keeper, signal);
        await keeper.clock.sleep(REFRESH_MS, signal).catch(() => undefined);
      }
    },
  };
}

/** The last good identity stays in use while new files can't be used, as during a rotation. */
async function refresh(keeper: Keeper, signal: AbortSignal): Promise<void> {
  if (keeper.identity !== undefined && (await stateOf(keeper.files)) === keeper.seen) return;
  try {
    const text = await findIdentity(keeper.settings, signal, keeper.root);
    // Read before the files: a change in between is noticed the next time.
    const seen = await stateOf(text.files);
    keeper.identity = identityOf(text);
    keeper.files = text.files;
    keeper.seen = seen;
    logUsed(keeper, text);
  } catch (error) {
    if (signal.aborted) return;
    logTrouble(keeper, error);
  }
}

/** Changes when a file is replaced or rewritten, also behind a link. */
async function stateOf(files: readonly string[]): Promise<string> {
  const states = await Promise.all(
    files.map((file) =>
      stat(file, { bigint: true }).then(
        ({ dev, ino, size, mtimeNs, ctimeNs }) => [dev, ino, size, mtimeNs, ctimeNs].join(':'),
        () => 'absent',
      ),
    ),
  );
  return states.join(' ');
}

/**
 * Reads the identity once, for a check.
 *
 * @returns with the end of its validity in milliseconds since the epoch
 * @throws AppError `fleet/identity`: which file is missing or can't be used
 */
export async function readIdentity(
  settings: IdentitySettings,
  signal: AbortSignal,
  root?: string,
): Promise<{ readonly identity: Identity; readonly validUntil: number }> {
  const text = await findIdentity(settings, signal, root);
  const [leaf] = certificatesOf(text.certificate);
  return { identity: identityOf(text), validUntil: Date.parse(leaf?.validTo ?? '') };
}

function identityOf(text: IdentityText): Identity {
  const { certificateFrom, authoritiesFrom } = text;
  const own = certificatesOf(text.certificate);
  const [leaf] = own;
  if (leaf === undefined) throw fleetError('fleet/identity', `${certificateFrom} has no certificate in PEM`);
  const node = nodeOf(leaf);
  if (node === undefined) {
    const message = `${certificateFrom} is no certificate of a kubelet: it is for ${subjectText(leaf)}; set fleet.kubeconfig`;
    throw fleetError('fleet/identity', message);
  }
  if (!leaf.checkPrivateKey(privateKey(text))) {
    throw fleetError('fleet/identity', `${certificateFrom} does not fit to its key`);
  }
  const authorities = certificatesOf(text.authorities);
  if (authorities.length === 0) {
    throw fleetError('fleet/identity', `${authoritiesFrom} has no certificate in PEM; set fleet.client_ca`);
  }
  const options: SecureContextOptions = {
    cert: own.map(String).join(''),
    key: text.key,
    ca: authorities.map(String),
    minVersion: 'TLSv1.3',
    secureOptions: constants.SSL_OP_NO_TICKET,
  };
  return { node, authorities, options, context: createSecureContext(options) };
}

function privateKey({ key, certificateFrom }: IdentityText) {
  try {
    return createPrivateKey(key);
  } catch (error) {
    throw fleetError('fleet/identity', `the key beside ${certificateFrom} can't be used: ${reasonOf(error)}`);
  }
}

/** Unreadable certificates are skipped. */
function certificatesOf(pem: string): X509Certificate[] {
  return (pem.match(CERTIFICATE) ?? []).flatMap((block) => {
    try {
      return [new X509Certificate(block)];
    } catch {
      return [];
    }
  });
}

function logUsed(keeper: Keeper, { certificateFrom, authoritiesFrom }: IdentityText): void {
  keeper.trouble = undefined;
  keeper.log.info(
    { certificateFrom, authoritiesFrom },
    `This node is ${keeper.identity?.node} by ${certificateFrom}, and believes the authorities of ${authoritiesFrom}`,
  );
}

function logTrouble(keeper: Keeper, error: unknown): void {
  const trouble = reasonOf(error);
  if (trouble === keeper.trouble) return;
  keeper.trouble = trouble;
  const next =
    keeper.identity === undefined
      ? 'no other node is reached before that is mended'
      : 'the certificate from before stays in use';
  keeper.log.warn({ err: error }, `The kubelet's certificate can't be used: ${trouble}; ${next}`);
}

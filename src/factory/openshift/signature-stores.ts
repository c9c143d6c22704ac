import { proxies } from '../../distribution/proxies.ts';
import { type Digest, hexOf } from '../../domain/model/digest.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { withDeadline } from '../../platform/async/abort.ts';
import { HttpClient, wholeBody } from '../../platform/http-client.ts';
import { MAX_MESSAGE_BYTES, type ReleaseSignature, type SignatureChoice } from './release-signatures.ts';

/** The cluster version operator has the same limit. */
const MAX_PUBLISHED = 10;
const ANSWER_MS = 20_000;

/** The first store that has any counts. `lack`: why there are none. Throws only on abort. */
export async function fetchPublished(
  stores: readonly string[],
  digest: Digest,
  signal: AbortSignal,
): Promise<Pick<SignatureChoice, 'found' | 'lack'>> {
  // Its proxy is that of the usual variables.
  const client = new HttpClient({}, { proxyEnv: proxies() });
  const whys: string[] = [];
  try {
    for (const store of stores) {
      const found: ReleaseSignature[] = [];
      try {
        for (let at = 1; at <= MAX_PUBLISHED; at += 1) {
          const place = `${store}/sha256=${hexOf(digest)}/signature-${at}`;
          const message = await withDeadline(place, ANSWER_MS, signal, (inner) => fetched(place, client, inner));
          if (message === undefined) break;
          found.push({ place, hex: hexOf(digest), message });
        }
        if (found.length === 0) whys.push(`${store} has none`);
      } catch (error) {
        signal.throwIfAborted();
        whys.push(`${store}: ${reasonOf(error)}`);
      }
      if (found.length > 0) return { found };
    }
  } finally {
    client.close();
  }
  return { found: [], lack: whys.join('; ') };
}

/** Returns undefined for 404. Redirects are not followed. */
async function fetched(url: string, client: HttpClient, signal: AbortSignal): Promise<Buffer | undefined> {
  const response = await client.open({ url }, signal);
  const body = await wholeBody(response, MAX_MESSAGE_BYTES);
  if (response.statusCode === 404) return undefined;
  if (response.statusCode !== 200) throw new Error(`it answers ${response.statusCode}`);
  return body;
}

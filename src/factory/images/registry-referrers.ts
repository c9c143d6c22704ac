import { parseReferrers, type Referral } from '../../bundle/format/referrers.ts';
import { Answered, type RegistryAccess, RegistryClient, type Repository } from '../../distribution/registry-client.ts';
import type { Digest } from '../../domain/model/digest.ts';
import { reasonOf } from '../../platform/app-error.ts';

const MAX_PAGES = 32;
const ACCEPT = { accept: 'application/vnd.oci.image.index.v1+json' };
/** Their answers mean that the registry has no such list (distribution-spec 1.1). */
const WITHOUT_LIST = new Set([400, 404, 405, 406, 415, 501]);

/** Lists referrers by the API of distribution-spec 1.1, which skopeo does not call. */
export class RegistryReferrers {
  /** Why a registry gave no list, once for each registry. */
  readonly notes = new Map<string, string>();
  private readonly clients = new Map<string, RegistryClient>();

  constructor(private readonly access: RegistryAccess) {}

  /** Undefined means that only a referrers tag may have them. Throws only on abort. */
  async list(of: Repository, subject: Digest, signal: AbortSignal): Promise<readonly Referral[] | undefined> {
    const { registry, repository } = of;
    if (this.notes.has(registry) || this.notes.has(repository)) return undefined;
    try {
      return await this.listPages(of, subject, signal);
    } catch (error) {
      signal.throwIfAborted();
      const why = `${repository} in registry ${registry}: no list of referrers (${reasonOf(error)}): only those under a tag sha256-<digest> travel`;
      this.notes.set(error instanceof Answered ? repository : registry, why);
      return undefined;
    }
  }

  private async listPages(of: Repository, subject: Digest, signal: AbortSignal): Promise<Referral[] | undefined> {
    const client = this.clients.get(of.repository) ?? new RegistryClient(of, this.access);
    this.clients.set(of.repository, client);
    const found: Referral[] = [];
    let path: string | undefined = `${client.base}referrers/${subject}`;
    for (let pages = 0; path !== undefined; pages += 1) {
      if (pages === MAX_PAGES) throw new Answered(`its list has more than ${MAX_PAGES} pages`);
      const { status, headers, body } = await client.document({ path, headers: ACCEPT }, signal);
      if (status !== 200) {
        if (pages === 0 && WITHOUT_LIST.has(status)) return undefined;
        throw new Answered(`it answers ${status}`);
      }
      try {
        found.push(...parseReferrers(body, 'its list', 'bundle/source'));
      } catch (error) {
        throw new Answered(reasonOf(error));
      }
      path = nextPath(String(headers.link ?? ''), client.host, path);
    }
    return found;
  }
}

/** distribution-spec 1.1, "Listing Referrers". A login goes to no other host. */
function nextPath(link: string, host: string, path: string): string | undefined {
  const [, next] = /<([^<>]*)>\s*;[^,<]*\brel="?next\b/i.exec(link) ?? [];
  if (next === undefined) return undefined;
  const page = new URL(`https://${host}${path}`);
  if (!URL.canParse(next, page.href)) throw new Answered('its list goes on at a malformed address');
  const found = new URL(next, page);
  // Behind a proxy a registry may think that it has no TLS.
  if (found.hostname !== page.hostname || found.username !== '') {
    throw new Answered(`its list goes on at another host, ${found.host}`);
  }
  return `${found.pathname}${found.search}`;
}

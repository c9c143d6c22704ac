/** Who asks our registry, by `User-Agent`. This is for routing only: anybody may send any text. */
export type Client = 'runtime' | 'other';

/** What our registry can send of an image now: everything, all but its layers, or less. */
export type Extent = 'whole' | 'documents' | 'partial';

/** What is known of a request for a manifest. */
export interface ManifestRequest {
  readonly client: Client;
  /**
   * Whether the runtime is to pull this image from us now: its missing layers come, or are waited
   * for.
   */
  readonly isArriving: boolean;
  readonly extent: Extent;
}

/**
 * Whether a manifest is sent: yes, no, or only if the runtime has the image at this moment. What is
 * not sent is answered 404, so that the client asks the next registry.
 */
export type ManifestAnswer = 'send' | 'withhold' | 'send-if-held';

/**
 * CRI-O, containerd (docs/runtime-facts.md, fact 28) and the embedded runtime. Not skopeo, podman
 * or rpm-ostree.
 */
const RUNTIMES = /^(?:cri-o|containerd|stickpin)\//i;

/** Who sends this `User-Agent`. */
export function clientOf(userAgent: string | undefined): Client {
  return userAgent !== undefined && RUNTIMES.test(userAgent) ? 'runtime' : 'other';
}

/**
 * Decides about a request for a manifest. A client that has our manifest looks for the layers
 * nowhere else (docs/runtime-facts.md, fact 12). So nobody gets a manifest whose layers are not
 * here, but the runtime when it needs none of them: it has the image (docs/runtime-facts.md, fact
 * 50), or it is being loaded from us.
 */
export function manifestAnswer({ client, isArriving, extent }: ManifestRequest): ManifestAnswer {
  if (extent === 'whole') return 'send';
  if (client === 'other') return 'withhold';
  if (isArriving) return 'send';
  return extent === 'documents' ? 'send-if-held' : 'withhold';
}

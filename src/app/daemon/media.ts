import { type Documents, documentsHere } from '../../bundle/documents/documents.ts';
import { judgeBundles } from '../../bundle/verify/judge-bundles.ts';
import { createDirectoryMedia } from '../../media/directory-media.ts';
import { createLoadedMedia } from '../../media/loaded-media.ts';
import { createMedia, type Media } from '../../media/media.ts';
import type { MediaProvider } from '../../media/provider/media-provider.ts';
import type { DaemonOptions } from './daemon-options.ts';
import type { TrustKeeper } from './trust/trust-keeper.ts';

/**
 * All media of the daemon: directories of the settings, what `stickpin load` names,
 * `options.providers`, and other nodes. @param peers default none
 */
export function createDaemonMedia(
  options: DaemonOptions,
  trust: TrustKeeper,
  documents: Documents = documentsHere,
  peers: readonly MediaProvider[] = [],
): Media {
  const { settings, clock, log, providers, watchBundle } = options;
  const directories = [
    ...settings.media.directories.map((path) => ({ path, layout: 'medium' as const })),
    { path: settings.media.incoming, layout: 'folder' as const },
  ];
  return createMedia({
    providers: [createDirectoryMedia({ directories, clock }), createLoadedMedia({ log }), ...providers, ...peers],
    log,
    ...(watchBundle !== undefined && { watchBundle }),
    judge: async (bundles, signal, last) => {
      const trustRevision = trust.revision();
      const known = last?.trustRevision === trustRevision ? last.bundles : [];
      const judged = await judgeBundles(bundles, { trust: trust.trust(), documents, known }, signal);
      return { bundles: judged, trustRevision };
    },
  });
}

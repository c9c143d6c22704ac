import type { Section } from '../section.ts';
import { oneOf, repositories } from '../value-types.ts';

/** The settings of section `serve`. */
export const serveSection = {
  about: 'What the registry answers while nothing is loaded, see [mirrors.md](decisions/mirrors.md).',
  settings: {
    activated: {
      type: oneOf(['digests-and-tags', 'digests', 'off']),
      default: 'digests-and-tags',
      about:
        "What the node's own registry answers of activated releases and of the fallback. With `digests-and-tags` the node sees the image of the release under a tag that the release holds, whatever the tag names elsewhere. With `digests` only references by digest are answered. With `off` the mirrors are there only while something is loaded or activated.",
    },
    except: {
      type: repositories,
      default: [],
      about: 'Repositories for which the registry answers only while one of their images is loaded or activated.',
    },
  },
} satisfies Section;

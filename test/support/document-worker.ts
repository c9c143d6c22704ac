import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { bundleProgram } from './bundles/bundle-program.ts';

/**
 * Builds the program of the thread in which large documents are parsed into `folder`, as the
 * package has it beside the daemon.
 */
export async function buildDocumentWorker(folder: string): Promise<URL> {
  const file = join(folder, 'document-worker.cjs');
  await bundleProgram('src/bundle/documents/document-worker.ts', file);
  return pathToFileURL(file);
}

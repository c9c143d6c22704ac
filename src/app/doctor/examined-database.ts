import { join } from 'node:path';
import type { ExaminedDatabase } from '../../doctor/check.ts';
import { AppError, systemCodeOf } from '../../platform/app-error.ts';
import { withDatabaseCopy } from '../../store/database/database-copy.ts';

/**
 * Looks at a copy of the database of the state.
 *
 * @throws errors of the filesystem, as when only root may read it
 */
export async function examineDatabase(stateDirectory: string, signal: AbortSignal): Promise<ExaminedDatabase> {
  const path = join(stateDirectory, 'state.db');
  try {
    return await withDatabaseCopy(path, signal, async (copy, sizeBytes) => {
      const { damageIn } = await import('../../store/database/read-copy.ts');
      const reason = damageIn(copy);
      return reason === undefined ? { kind: 'whole', path, sizeBytes } : { kind: 'damaged', path, reason };
    });
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return { kind: 'absent', path };
    // What opens it says why it can't be used.
    if (error instanceof AppError) return { kind: 'damaged', path, reason: error.message };
    throw error;
  }
}

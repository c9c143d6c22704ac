import { loadSettings, type SettingsSources } from '../../../config/load-settings.ts';
import type { Settings } from '../../../domain/settings/settings.ts';
import { reasonOf } from '../../../platform/app-error.ts';
import type { Log } from '../../../platform/log.ts';
import { messageIds } from '../../../platform/message-ids.ts';
import type { Unsubscribe } from '../../../platform/subscription.ts';
import type { ServiceNotifier } from '../../../ports/node.ts';
import { watchConfig } from '../../../runtime/config/config-watch.ts';

/** The options of the watch. */
export interface WatchSettingsOptions {
  /** The settings in use. */
  readonly settings: Settings;
  /** Their sources. */
  readonly sources: SettingsSources;
  readonly log: Log;
  readonly notifier: ServiceNotifier;
  /** Called after a SIGHUP without a change of settings: check everything again. */
  readonly onReload: () => void;
  /**
   * Called once, for other, valid settings: the daemon must stop, and systemd starts it with them.
   * Sockets and mounts stay.
   */
  readonly onChanged: () => void;
  /** Called with why new settings are refused, and without once the files are valid again. */
  readonly onRefused?: (why?: string) => void;
}

/**
 * Reads the settings again when their files change and at SIGHUP. Invalid settings are reported,
 * and the current ones stay in use.
 */
export function watchSettings({
  settings,
  sources,
  log,
  notifier,
  onReload,
  onChanged,
  onRefused,
}: WatchSettingsOptions): Unsubscribe {
  const stop = new AbortController();
  const inForce = JSON.stringify(settings);
  let isChanged = false;
  const look = async (): Promise<void> => {
    try {
      const next = await loadSettings(sources, stop.signal);
      if (isChanged) return;
      onRefused?.();
      if (JSON.stringify(next) === inForce) return onReload();
      isChanged = true;
      log.info(
        { messageId: messageIds.configurationChanged },
        'The settings changed: starting again with the new ones',
      );
      onChanged();
    } catch (error) {
      if (stop.signal.aborted) return;
      onRefused?.(reasonOf(error));
      log.warn(
        { err: error, messageId: messageIds.configurationRejected },
        `The new settings are not taken: ${reasonOf(error)}. Those from before stay in force`,
      );
    }
  };
  const onHangup = () => {
    notifier.reloading();
    void look().finally(() => notifier.ready());
  };
  process.on('SIGHUP', onHangup);
  const paths = sources.fragments.map((fragment) => ('file' in fragment ? fragment.file : fragment.folder));
  const unwatch = watchConfig(paths, { ownPaths: [], log }, () => void look());
  return () => {
    stop.abort();
    process.off('SIGHUP', onHangup);
    unwatch();
  };
}

/**
 * The `MESSAGE_ID` of each kind of message that an operator may look up with `journalctl -x` (systemd.journal-fields(7)). Each has its entry
 * in systemd/stickpin.catalog. An id is never changed or used for anything else.
 */
export const messageIds = {
  daemonStarted: 'b6a3c8daa73f4ffea30ee24c9db00188',
  daemonStopping: 'be9d2b5551c4452ea928952ef79e274b',
  busLost: '49a77375dd1c4515a9bd447fb954fc5e',
  busBack: 'f9eefeb85b4142e8a06de713d241be05',
  noKeys: 'af53f3c3f2184b3cba6e3ab690b250f6',
  keysChanged: 'c6c77eeba22d40b88b824e506d7f65f0',
  configurationChanged: '964e84aa9fb5703391d5701d15c09083',
  configurationRejected: '3fd5ca44ff374cefb702fb93380626c4',
  mediumFound: '751ec31b9c254747a7c3604698e02edd',
  mediumMounted: 'b958a316bdbe46d28354f02b964f1025',
  mediumFailed: 'a3a5e5052f7c41629dbabbb0006e5ba7',
  mediumEmpty: 'b4226419e46844929fa57a64f69f8cf4',
  mediumGone: 'e38f3e1c889e488195cde45ce66cc2b3',
  mediumRefused: 'e910c22894884dc788c5f258224e2077',
  bundleVerified: '8c7bd5f3e3e34e578b24504df3f4868d',
  bundleRejected: 'c2f01b0f85bf450f82a7a7664010b4b3',
  bundleHeld: 'b7e73b92cb194c4b9030ef7b0cfeb76b',
  preloadStarted: 'c3447dd7186c477d9b8c2703986037ee',
  preloadPaused: '7bfb8a1fd3924903b5ecf87fecb87a01',
  imagePulled: '227f23fce6b84b66b343350b8db83017',
  pullFailed: '723b4776f8b649c3b5bb7aeee860a019',
  blobDamaged: 'a508bea3d5c1498399690fb237b76b57',
  blobMissing: '83c678d03c0e4847b5e0cb7a3ef12734',
  noSpace: '95378c89530e4db98b48d98b9aab7e85',
  diskFull: '6338c58c49de4a22bb223aa5c9b8cfcc',
  policyRefused: 'd8a1973ae7754b309f14a48d5dab8bcf',
  pullStalled: '44e3afa7c76f4cf18512c345841134e7',
  notInBundle: 'e55cfb908c9b4e7da0aaa21afc330b51',
  bundleDegraded: '93a35d3017324390805c2a4850098081',
  bundleReady: 'a1f5ae643dd145728c07b79ef00243ff',
  bundleActivated: 'f690b506f3b74a6181715d59b270e00a',
  activationFailed: 'fe314fbb43514be786f72ceaa3652ffe',
  pinsNotTaken: 'bd50d7460efc4f09a8e99bf4bc39b79d',
  pinsHold: '57482aa0a1694925b0b3b3f469cdfbdb',
  runtimeUnreachable: '1aee153d8aea470aab617367691401a1',
  runtimeBack: '64a1a0e1ee234434ab3ddbf583b05f69',
  roundFailed: '0fb4b41dc97649f488a3eb7b6bb7fa3a',
} as const;

/** A kind of message in {@link messageIds}. */
export type MessageKind = keyof typeof messageIds;

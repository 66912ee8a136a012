import { defineConfig } from 'vite';

export default defineConfig({
  base: '/',
  build: {
    target: 'es2021',
    sourcemap: false,
    // The page's policy allows no data: addresses.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: {
    // `npm run dev` beside a coordinator of this machine.
    proxy: { '/v1': 'http://127.0.0.1:7480' },
  },
});
